import pytest

from disque.client import url


def test_all_parts() -> None:
    parts = url.split("disques://me:se%40cret@one:1,[::1]:2,three?timeout_ms=5&order=given")
    assert parts.tls
    assert (parts.user, parts.password) == ("me", "se@cret")
    assert parts.nodes == (("one", 1), ("::1", 2), ("three", 7711))
    assert parts.query == [("timeout_ms", "5"), ("order", "given")]


@pytest.mark.parametrize(
    ("text", "user", "password"),
    [
        ("host", None, None),
        ("secret@host", None, "secret"),
        (":secret@host", None, "secret"),
        ("a:b:c@host", "a", "b:c"),
    ],
)
def test_who_logs_in(text: str, user: str | None, password: str | None) -> None:
    parts = url.split(f"disque://{text}")
    assert (parts.user, parts.password, parts.nodes) == (user, password, (("host", 7711),))


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("my_shop-node_1.internal.:1", "my_shop-node_1.internal."),
        ("[fe80::1%eth0]:1", "fe80::1%eth0"),
        ("[::ffff:10.0.0.1]:1", "::ffff:10.0.0.1"),
        ("b\u00fccher.example:1", "b\u00fccher.example"),
        ("\u0939\u093f\u0928\u094d\u0926\u0940:1", "\u0939\u093f\u0928\u094d\u0926\u0940"),
    ],
)
def test_what_can_be_looked_up_is_a_host(text: str, host: str) -> None:
    assert url.split_address(text) == (host, 1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("redis://host", "must begin with disque://"),
        ("host:7711", "must begin with disque://"),
        ("disque://", "host ''"),
        ("disque://a,,b", "host ''"),
        ("disque://a b", "host 'a b'"),
        ("disque://a\u00a0b", "host"),
        ("disque://a;b:1", "host 'a;b' in 'a;b:1'"),
        ("disque://a|b", "host 'a|b'"),
        ("disque://a]:1", "host 'a]'"),
        ("disque://" + 64 * "\u00fc" + ";", "a name or an address"),
        ("disque://a:port", "port 'port' of host a"),
        ("disque://a:0", "port '0' of host a"),
        ("disque://a:65536", "port '65536' of host a"),
        ("disque://::1:7711", "brackets"),
        ("disque://a/3", "path /3"),
        ("disque://a?timeout", "query 'timeout'"),
    ],
)
def test_the_part_that_is_wrong_is_named(text: str, says: str) -> None:
    with pytest.raises(ValueError, match="Invalid URL") as caught:
        url.split(text)
    assert says in str(caught.value)


def test_no_message_shows_the_password() -> None:
    for rest in ("a:x", "a/3", "a b", "a?x"):
        with pytest.raises(ValueError, match="Invalid URL") as caught:
            url.split(f"disque://me:hush@{rest}")
        assert "hush" not in str(caught.value)


def test_options_by_type_and_the_nearest_name() -> None:
    kinds = {"timeout_ms": "int", "tls": "bool", "ca": "str | None", "also_retry": "tuple[str, ...]"}
    assert url.option("timeout_ms", "7", kinds) == 7
    assert url.option("tls", "Yes", kinds) is True
    assert url.option("tls", "0", kinds) is False
    assert url.option("ca", "/x", kinds) == "/x"
    assert url.option("also_retry", "NOREPL,OOM", kinds) == ("NOREPL", "OOM")
    with pytest.raises(ValueError, match="unknown option 'timeoutms', did you mean timeout_ms"):
        url.option("timeoutms", "7", kinds)
    with pytest.raises(ValueError, match="unknown option 'zzz'; there are timeout_ms"):
        url.option("zzz", "7", kinds)
    with pytest.raises(ValueError, match="option tls: yes or no"):
        url.option("tls", "perhaps", kinds)
    with pytest.raises(ValueError, match="option timeout_ms: a whole number"):
        url.option("timeout_ms", "soon", kinds)
