"""The command line of a gateway."""

from pathlib import Path

import pytest

from disque.gateway.options import PORT
from disque.gateway.settings import BadSettingError, parse


class TestCommandLine:
    def test_without_words_it_serves_the_node_of_this_machine_to_this_machine(self) -> None:
        settings = parse([], {})
        assert settings.nodes == (("127.0.0.1", 7711),)
        assert settings.listen == ("127.0.0.1", PORT)
        assert settings.admin_listen is None
        assert settings.scheme == "http"

    def test_nodes_are_a_list(self) -> None:
        config = parse(["--nodes", "node-1:7711,[::1]:7712,node-3"], {}).cluster()
        assert config.nodes == (("node-1", 7711), ("::1", 7712), ("node-3", 7711))

    def test_secrets_come_from_files_or_the_environment_and_are_not_shown(self, tmp_path: Path) -> None:
        (tmp_path / "password").write_text("hidden-password\n")
        (tmp_path / "secret").write_text("hidden-secret-hidden-secret\n")
        (tmp_path / "accounts").write_text("# who\nada:hidden:one\n\n")
        words = [f"--{name}-file={tmp_path / name}" for name in ("password", "secret", "accounts")]
        settings = parse(words, {"DISQUE_AUTH": "another"})
        assert settings.password == "hidden-password"
        assert settings.secret == b"hidden-secret-hidden-secret"
        assert settings.accounts == {"ada": "hidden:one"}
        assert "hidden" not in repr(settings)
        assert parse([], {"DISQUE_AUTH": "another"}).password == "another"

    def test_an_authority_for_nodes_means_tls(self) -> None:
        assert parse(["--cluster-ca", "ca.pem"], {}).cluster().tls
        assert parse(["--tls-cert", "a", "--tls-key", "b"], {}).scheme == "https"

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["--listen", "nowhere:x"], "--listen: port 'x'"),
            (["--listen", "gateway-1"], "--listen: 'gateway-1' has no port"),
            (["--admin-listen", "[::1]"], r"--admin-listen: '\[::1\]' has no port"),
            (["--nodes", "a:1,,b:2"], "--nodes: host ''"),
            (["--tls-cert", "a"], "belong together"),
            (["--cluster-key", "a"], "belong together"),
            (["--max-connections", "0"], "above 0"),
            (["--secret-file", "/nowhere"], "/nowhere cannot be read"),
        ],
    )
    def test_what_makes_no_sense_is_named(self, words: list[str], said: str) -> None:
        with pytest.raises(BadSettingError, match=said):
            parse(words, {})

    def test_secrets_that_are_too_short_and_lines_that_are_none_are_named(self, tmp_path: Path) -> None:
        short, lines = tmp_path / "short", tmp_path / "lines"
        short.write_text("abc")
        lines.write_text("ada:one\nbob\n")
        with pytest.raises(BadSettingError, match="at least 16 characters"):
            parse(["--secret-file", str(short)], {})
        with pytest.raises(BadSettingError, match="line 2: user:password"):
            parse(["--accounts-file", str(lines)], {})
