import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.member import (
    FAIL,
    HANDSHAKE,
    LEAVING,
    MYSELF,
    NOADDR,
    PFAIL,
    Member,
    flags_text,
    is_address,
    is_host,
    is_node_id,
    is_zone,
)

A = b"a" * 40


class TestNode:
    def test_the_bus_is_10000_above_the_port_unless_told_otherwise(self) -> None:
        assert Member(A, b"", 7711).bus_port == 17711
        assert Member(A, b"", 7711, 4000).bus_port == 4000

    @pytest.mark.parametrize("text", [b"", b"a" * 39, b"a" * 41, b"A" * 40, b"g" * 40, b" " + b"a" * 39])
    def test_an_id_is_40_lower_hexadecimal_digits(self, text: bytes) -> None:
        assert not is_node_id(text)
        assert is_node_id(b"0123456789abcdef" + b"0" * 24)

    @pytest.mark.parametrize(
        ("flags", "text"),
        [
            (0, b"noflags"),
            (MYSELF, b"myself"),
            (MYSELF | LEAVING, b"myself,leaving"),
            (PFAIL | NOADDR, b"fail?,noaddr"),
            (FAIL | HANDSHAKE, b"fail,handshake"),
        ],
    )
    def test_flags_have_names_in_a_fixed_order(self, flags: int, text: bytes) -> None:
        assert flags_text(flags) == text


class TestAddress:
    @pytest.mark.parametrize("ip", [b"127.0.0.1", b"::1", b"fe80::1%eth0", b"node-1.example.org", b"x" * 255])
    def test_it_is_a_short_text_without_surprises(self, ip: bytes) -> None:
        assert is_address(ip, 7711, 17711)

    @pytest.mark.parametrize("ip", [b"", b"x" * 256, b"a b", b"a\n", b"a\0", b"a@b", b"\xff", b"a,b"])
    def test_what_would_spoil_a_line_is_none(self, ip: bytes) -> None:
        assert not is_address(ip, 7711, 17711)

    @pytest.mark.parametrize(("port", "bus_port"), [(-1, 1), (65536, 1), (1, 0), (1, -1), (1, 65536)])
    def test_ports_are_in_range(self, port: int, bus_port: int) -> None:
        assert not is_address(b"::1", port, bus_port)
        assert is_address(b"::1", 0, 65535)


class TestHost:
    @pytest.mark.parametrize(
        "text", [b"127.0.0.1", b"::1", b"fe80::1%eth0", b"localhost", b"node-1.example.org", b"a_b", b"n1.", b"7up"]
    )
    def test_addresses_and_names(self, text: bytes) -> None:
        assert is_host(text)

    @pytest.mark.parametrize(
        "text",
        [
            *(b"", b".", b"a..b", b"-a", b"a-", b"256.1.1.1", b"1.2.3", b"17", b"a b", b"a:1", b"::g", b"x" * 64),
            *(b"\xff", b"x." * 127, b"1.2.3.4\n", b"a\n", b"a/b"),
        ],
    )
    def test_anything_else_is_neither(self, text: bytes) -> None:
        assert not is_host(text)

    @given(st.ip_addresses())
    def test_every_ip_address_is_a_host(self, ip: object) -> None:
        assert is_host(str(ip).encode())

    @given(st.binary(max_size=20))
    def test_every_host_is_fit_for_an_address(self, text: bytes) -> None:
        assert not is_host(text) or is_address(text, 0, 1)


class TestZones:
    @pytest.mark.parametrize("text", [b"", b"rack-1", b"eu/a.b_c@d", b"x" * 64])
    def test_a_label_is_short_and_plain(self, text: bytes) -> None:
        assert is_zone(text)

    @pytest.mark.parametrize("text", [b"x" * 65, b"a b", b"a:b", b"a\n", b"\xc3\xa4", b"a\0", b"a,b"])
    def test_what_could_spoil_a_line_is_none(self, text: bytes) -> None:
        assert not is_zone(text)
