import ssl
from typing import Any

import kombu
import pytest

import disque.celery  # noqa: F401 - registers the transport
from disque.celery.options import FOREVER_S, Options, config_of


def config(url: str, **words: Any) -> Any:
    return config_of(kombu.Connection(url, **words))


class TestAddresses:
    @pytest.mark.parametrize(
        ("url", "nodes"),
        [
            ("disque://", (("localhost", 7711),)),
            ("disque://node-1", (("node-1", 7711),)),
            ("disque://node-1:7720//", (("node-1", 7720),)),
            ("disque://node-1;disque://node-2:7712", (("node-1", 7711), ("node-2", 7712))),
            ("disque://node-1;node-2", (("node-1", 7711), ("node-2", 7711))),
            ("disque://node-1;redis://node-2", (("node-1", 7711),)),
        ],
    )
    def test_nodes_are_those_of_the_urls(self, url: str, nodes: tuple[tuple[str, int], ...]) -> None:
        assert config(url).nodes == nodes

    def test_the_node_in_use_comes_first(self) -> None:
        connection = kombu.Connection("disque://node-1;disque://node-2")
        connection.switch("disque://node-2")
        assert config_of(connection).nodes == (("node-2", 7711), ("node-1", 7711))

    def test_the_transport_may_be_named_by_its_class(self) -> None:
        connection = kombu.Connection("disque://node-1:7720", transport="disque.celery:Transport")
        assert connection.transport_cls == "disque.celery:Transport"
        assert config_of(connection).nodes == (("node-1", 7720),)

    def test_user_and_password_may_stand_in_any_url(self) -> None:
        found = config("disque://node-1;disque://ada:p%40ss@node-2")
        assert (found.user, found.password) == ("ada", "p@ss")

    def test_a_password_may_be_a_function(self) -> None:
        assert config("disque://node-1", password=lambda: "secret").password == "secret"

    def test_time_limits_and_a_name(self) -> None:
        options = {"socket_timeout": 1.5, "socket_connect_timeout": 0.5, "client_name": "web"}
        found = config("disque://", transport_options=options)
        assert (found.timeout_ms, found.connect_timeout_ms, found.client_name) == (1500, 500, "web")


class TestTls:
    @pytest.mark.parametrize(
        "url", ["disques://node-1", "disque://node-1?ssl=true", "disque://node-1;disques://node-2"]
    )
    def test_the_url_may_say_it(self, url: str) -> None:
        assert config(url).tls
        assert config(url).verify

    def test_the_transport_may_say_it(self) -> None:
        url = "disques://node-1:7720"  # with a transport of its own kombu drops the scheme
        connection = kombu.Connection(url, transport="disque.celery:TlsTransport")
        assert connection.transport.disque.config.tls
        assert connection.transport.disque.config.nodes == (("node-1", 7720),)

    @pytest.mark.parametrize("url", ["disque://node-1", "disque://node-1?ssl=false"])
    def test_otherwise_there_is_none(self, url: str) -> None:
        assert not config(url).tls

    @pytest.mark.parametrize("head", ["", "ssl_"])
    def test_files_are_named_as_with_redis_or_as_with_amqp(self, head: str) -> None:
        files = {f"{head}ca_certs": "ca.crt", f"{head}certfile": "a.crt", f"{head}keyfile": "a.key"}
        found = config("disque://node-1", ssl=files)
        assert (found.tls, found.ca, found.cert, found.key) == (True, "ca.crt", "a.crt", "a.key")

    @pytest.mark.parametrize("level", [ssl.CERT_NONE, "none"])
    def test_checks_are_switched_off_by_name_only(self, level: Any) -> None:
        assert not config("disque://node-1", ssl={"ssl_cert_reqs": level}).verify
        assert config("disque://node-1", ssl=True).verify

    def test_an_option_that_is_unknown_is_named(self) -> None:
        with pytest.raises(ValueError, match="unknown options of TLS: ciphers"):
            config("disque://node-1", ssl={"ciphers": "all"})


class TestOptions:
    def of(self, url: str = "disque://", **options: Any) -> Options:
        return Options.of(kombu.Connection(url, transport_options=options))

    def test_a_lease_is_a_minute_unless_said_otherwise(self) -> None:
        assert self.of().lease_s == 60
        assert self.of(lease=5).lease_s == 5

    def test_a_visibility_timeout_of_redis_makes_it_shorter_but_not_longer(self) -> None:
        assert self.of(visibility_timeout=10).lease_s == 10
        assert self.of(visibility_timeout=43200).lease_s == 60

    @pytest.mark.parametrize("lease", [0, -1])
    def test_a_lease_that_is_none_is_refused(self, lease: int) -> None:
        with pytest.raises(ValueError, match="lease must be above 0"):
            self.of(lease=lease)

    @pytest.mark.parametrize(
        ("url", "given", "prefix"),
        [
            ("disque://host", {}, ""),
            ("disque://host//", {}, ""),
            ("disque://host/shop", {}, "shop/"),
            ("disque://host", {"global_keyprefix": "a:"}, "a:"),
            ("disque://host/shop", {"global_keyprefix": "a:"}, "a:shop/"),
        ],
    )
    def test_a_virtual_host_is_a_prefix(self, url: str, given: dict[str, Any], prefix: str) -> None:
        assert self.of(url, **given).prefix == prefix

    def test_messages_live_until_somebody_takes_them(self) -> None:
        assert self.of().ttl_s == FOREVER_S

    def test_options_of_jobs(self) -> None:
        assert self.of(job_options={"tries": 5}).job == {"tries": 5}
        with pytest.raises(ValueError, match="unknown job_options: body, ttl; there are backoff"):
            self.of(job_options={"body": "x", "ttl": 3})
