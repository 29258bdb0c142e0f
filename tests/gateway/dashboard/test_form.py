"""How pages write numbers, times, sizes and bodies."""

import pytest

from disque.gateway.dashboard import form


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1500, "1.5 s"),
        (61_000, "1 min 1 s"),
        (3_600_000, "1 h"),
        (90_061_000, "1 d 1 h"),
        (None, form.NOTHING),
    ],
)
def test_a_time_has_its_two_largest_units(ms: object, text: str) -> None:
    assert form.lasting(ms) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KB"), (5 << 30, "5.0 GB"), (None, form.NOTHING)]
)
def test_sizes(value: object, text: str) -> None:
    assert form.size(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.25, "0.2"), (12.6, "13"), (1234.5, "1,234"), (None, form.NOTHING)]
)
def test_rates(value: object, text: str) -> None:
    assert form.rate(value) == text


def test_what_turns_letters_around_is_written_out_where_it_is_shown() -> None:
    assert form.visible("a\u202eb\u2066\udcff") == "a\\u202eb\\u2066\\udcff"
    assert form.typed("a\u202eb") == "a\u202eb", "what is sent back stays"


def test_one_job_is_one() -> None:
    assert [form.jobs(many) for many in (0, 1, 1234)] == ["0 jobs", "1 job", "1,234 jobs"]


def test_a_part_of_nothing_is_nothing() -> None:
    assert form.share(5, 0) == 0
    assert form.share(None, 7) == 0
    assert form.share(3, 2) == 100
    assert form.share(1, 4) == 25


def test_a_name_in_a_path_keeps_its_bytes() -> None:
    name = b"a/b \xff".decode("utf-8", "surrogateescape")
    assert form.word(name) == "a%2Fb%20%FF"
    assert form.visible(name) == "a/b \\udcff"


class TestBody:
    def test_json_is_set_out(self) -> None:
        assert form.body(b'{"a":[1]}') == ('{\n  "a": [\n    1\n  ]\n}', "json")

    def test_what_only_looks_like_json_is_text(self) -> None:
        assert form.body(b"{a}") == ("{a}", "text")
        assert form.body(b"[" * 200_000)[1] == "text"

    def test_bytes_are_shown_in_hex_with_their_letters(self) -> None:
        text, kind = form.body(b"ab\x00\xff")
        assert kind == "binary"
        assert text.startswith("00000000  61 62 00 ff")
        assert text.endswith("ab..")

    def test_nothing_is_empty(self) -> None:
        assert form.body(b"") == ("", "empty")
        assert form.body(None) == ("", "empty")

    def test_long_ones_are_cut(self) -> None:
        assert len(form.body(b"x" * (form.BODY_MOST * 2))[0]) == form.BODY_MOST
        assert len(form.body(b"\0" * (form.BODY_MOST * 2))[0]) < form.BODY_MOST * 2
