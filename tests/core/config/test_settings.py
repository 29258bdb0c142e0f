import pytest
from hypothesis import given
from hypothesis import strategies as st

from disque.core.config.setting import SECTIONS, Setting
from disque.core.config.settings import BY_NAME, SETTINGS, Config, SettingError

MUTABLE = [setting.name for setting in SETTINGS if setting.mutable]
FIXED = [setting.name for setting in SETTINGS if not setting.mutable]

# What CONFIG GET * answers in the reference, in its order.
REFERENCE_ORDER = [
    "requirepass", "unixsocket", "logfile", "pidfile", "maxmemory", "maxmemory-samples", "timeout",
    "auto-aof-rewrite-percentage", "auto-aof-rewrite-min-size", "slowlog-log-slower-than",
    "latency-monitor-threshold", "slowlog-max-len", "port", "tcp-backlog", "databases", "maxclients",
    "watchdog-period", "hz", "cluster-node-timeout", "tcp-keepalive", "no-appendfsync-on-rewrite", "daemonize",
    "activerehashing", "aof-rewrite-incremental-fsync", "aof-load-truncated", "aof-enqueue-jobs-once",
    "maxmemory-policy", "loglevel", "appendfsync", "syslog-facility", "appendonly", "dir",
    "client-output-buffer-limit", "unixsocketperm", "bind",
]  # fmt: skip

# A good value that is not the default, as CONFIG SET takes it and CONFIG GET shows it.
OTHER = {
    "requirepass": 'p w"\\\n\0',
    "maxmemory": "1536",
    "maxmemory-clients": "2147483648",
    "maxmemory-samples": "6",
    "timeout": "7",
    "auto-aof-rewrite-percentage": "0",
    "auto-aof-rewrite-min-size": "2097152",
    "slowlog-log-slower-than": "-1",
    "latency-monitor-threshold": "100",
    "slowlog-max-len": "0",
    "maxclients": "1",
    "watchdog-period": "500",
    "hz": "500",
    "cluster-node-timeout": "1",
    "tcp-keepalive": "0",
    "no-appendfsync-on-rewrite": "yes",
    "activerehashing": "no",
    "aof-rewrite-incremental-fsync": "no",
    "aof-load-truncated": "no",
    "aof-enqueue-jobs-once": "yes",
    "maxmemory-policy": "noeviction",
    "loglevel": "debug",
    "appendfsync": "always",
    "appendonly": "yes",
    "dir": "/var/lib/dis que",
    "client-output-buffer-limit": "normal 100 50 1 pubsub 200 60 2",
    "aof-segment-size": "65536",
    "protected-mode": "no",
    "proto-max-bulk-len": "1024",
    "client-query-buffer-limit": "65536",
    "cluster-announce-ip": "node-1.example.org",
    "cluster-announce-port": "17711",
    "cluster-announce-bus-port": "1",
    "cluster-seeds": "a:7711 [::1]:7712 b:7713@1",
    "cluster-secret": 'p w"\\\n\0',
    "cluster-forget-after": "60",
    "cluster-repair-after": "0",
    "default-replicate": "2",
    "restart-grace": "0",
    "registry-max-bytes": "1000000",
    "history-queues": "0",
    "max-result-bytes": "4096",
    "acllog-max-len": "5",
    "tls-cert-file": "/a.crt",
    "tls-key-file": "/a.key",
    "tls-ca-cert-file": "/ca.crt",
    "tls-auth-clients": "optional",
    "tls-auth-clients-user": "CN",
}

# A value that the option does not take.
WRONG = {
    "requirepass": "x" * 513,
    "maxmemory": "-1",
    "maxmemory-clients": "-1",
    "maxmemory-samples": "0",
    "timeout": "-1",
    "auto-aof-rewrite-percentage": "2147483648",
    "auto-aof-rewrite-min-size": "1tb",
    "slowlog-log-slower-than": "9223372036854775808",
    "latency-monitor-threshold": "-1",
    "slowlog-max-len": "1000001",
    "maxclients": "0",
    "watchdog-period": "-1",
    "hz": "ten",
    "cluster-node-timeout": "0",
    "tcp-keepalive": "maybe",
    "no-appendfsync-on-rewrite": "1",
    "activerehashing": "",
    "aof-rewrite-incremental-fsync": "true",
    "aof-load-truncated": "on",
    "aof-enqueue-jobs-once": "off",
    "maxmemory-policy": "lru",
    "loglevel": "loud",
    "appendfsync": "yes",
    "appendonly": "everysec",
    "dir": "",
    "client-output-buffer-limit": "replica 0 0 0",
    "aof-segment-size": "65535",
    "protected-mode": "2",
    "proto-max-bulk-len": "3gb",
    "client-query-buffer-limit": "64k",
    "cluster-announce-ip": "node 1",
    "cluster-announce-port": "65536",
    "cluster-announce-bus-port": "-1",
    "cluster-seeds": "a:7711 b",
    "cluster-secret": "x" * 513,
    "cluster-forget-after": "0",
    "cluster-repair-after": "-1",
    "default-replicate": "65536",
    "restart-grace": "-1",
    "registry-max-bytes": "10",
    "history-queues": "1000001",
    "max-result-bytes": "65mb",
    "acllog-max-len": "-1",
    "tls-cert-file": "x" * 4096,
    "tls-key-file": "a\0b",
    "tls-ca-cert-file": "a\0b",
    "tls-auth-clients": "perhaps",
    "tls-auth-clients-user": "URI",
}


class TestTable:
    def test_names_are_there_once_and_in_lower_case(self) -> None:
        assert len(BY_NAME) == len(SETTINGS)
        assert all(name == name.lower() for name in BY_NAME)

    def test_the_order_is_that_of_the_reference_and_then_the_others(self) -> None:
        assert [setting.name for setting in SETTINGS][: len(REFERENCE_ORDER)] == REFERENCE_ORDER

    @pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
    def test_each_row_has_a_section_and_a_help_that_ends_like_a_sentence(self, setting: Setting) -> None:
        assert setting.section in SECTIONS
        assert setting.help.endswith(".")

    def test_every_option_that_can_be_set_is_tried_here(self) -> None:
        assert set(OTHER) == set(WRONG) == set(MUTABLE)


class TestDefaults:
    def test_nothing_differs_from_the_defaults_at_first(self) -> None:
        assert Config().changed() == {}

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("port", "7711"),
            ("maxmemory", "1073741824"),
            ("tcp-keepalive", "300"),
            ("requirepass", ""),
            ("bind", ""),
            ("unixsocketperm", "0"),
            ("appendonly", "no"),
            ("appendfsync", "everysec"),
            ("cluster-node-timeout", "15000"),
            ("proto-max-bulk-len", "67108864"),
            ("client-query-buffer-limit", "1073741824"),
            ("aof-segment-size", "67108864"),
            ("client-output-buffer-limit", "normal 1073741824 33554432 60 pubsub 33554432 8388608 60"),
        ],
    )
    def test_defaults(self, name: str, text: str) -> None:
        assert Config().get_text(name) == text

    def test_the_largest_body_fits_into_the_limits_of_a_client(self) -> None:
        config = Config()
        body = config.number("proto-max-bulk-len")
        assert config.number("client-query-buffer-limit") > body
        assert config.output_limits("normal")[0] >= 2 * body


class TestSet:
    @pytest.mark.parametrize("name", MUTABLE)
    def test_what_was_set_is_what_is_got(self, name: str) -> None:
        config = Config()
        config.set_text(name, OTHER[name])
        assert config.get_text(name) == OTHER[name]
        assert config.changed() == {name: OTHER[name]}

    @pytest.mark.parametrize("name", MUTABLE)
    def test_a_wrong_value_is_refused_and_changes_nothing(self, name: str) -> None:
        config = Config()
        config.set_text(name, OTHER[name])
        with pytest.raises(SettingError) as refusal:
            config.set_text(name, WRONG[name])
        assert str(refusal.value) == f"Invalid argument '{WRONG[name]}' for CONFIG SET '{name}'"
        assert refusal.value.hint.startswith(f"Expected: {name} <")
        assert config.get_text(name) == OTHER[name]

    @pytest.mark.parametrize("name", [*FIXED, "no-such-option", ""])
    def test_what_cannot_change_in_a_running_node_is_unsupported(self, name: str) -> None:
        with pytest.raises(SettingError) as refusal:
            Config().set_text(name, "1")
        immutable = (
            f"CONFIG SET failed (possibly related to argument '{name}') - can't set immutable config: "
            "it is read when the server starts"
        )
        assert str(refusal.value) == (immutable if name in BY_NAME else f"Unsupported CONFIG parameter: {name}")

    def test_the_name_is_taken_in_any_case_and_given_back_as_typed(self) -> None:
        config = Config()
        config.set_text("MaxClients", "5")
        assert config.number("maxclients") == 5
        with pytest.raises(SettingError, match="Invalid argument 'x' for CONFIG SET 'MaxClients'"):
            config.set_text("MaxClients", "x")

    def test_a_check_changes_nothing(self) -> None:
        config = Config()
        config.check_text("timeout", "5")
        with pytest.raises(SettingError):
            config.check_text("timeout", "x")
        assert config.changed() == {}

    def test_sizes_may_have_units(self) -> None:
        config = Config()
        config.set_text("maxmemory", "2GB")
        config.set_text("auto-aof-rewrite-min-size", "1k")
        assert config.get_text("maxmemory") == "2147483648"
        assert config.get_text("auto-aof-rewrite-min-size") == "1000"

    def test_keep_alive_takes_yes_and_no(self) -> None:
        config = Config()
        config.set_text("tcp-keepalive", "no")
        assert config.get_text("tcp-keepalive") == "0"
        config.set_text("tcp-keepalive", "yes")
        assert config.get_text("tcp-keepalive") == "300"

    def test_hz_is_moved_to_the_nearer_bound(self) -> None:
        config = Config()
        config.set_text("hz", "100000")
        assert config.number("hz") == 500

    def test_no_memory_limit_is_zero(self) -> None:
        config = Config()
        config.set_text("maxmemory", "0")
        assert config.number("maxmemory") == 0

    @given(st.sampled_from(SETTINGS), st.text(max_size=30))
    def test_any_text_is_taken_and_shown_again_or_refused(self, setting: Setting, value: str) -> None:
        config, again = Config(), Config()
        try:
            config.set_text(setting.name, value)
        except SettingError:
            assert config.changed() == {}
            return
        again.set_text(setting.name, config.get_text(setting.name))
        assert again.get_text(setting.name) == config.get_text(setting.name)


class TestTyped:
    def test_each_type_has_its_accessor(self) -> None:
        config = Config()
        config.put("bind", ("127.0.0.1", "-::1"))
        assert config.number("port") == 7711
        assert config.flag("protected-mode") is True
        assert config.text("loglevel") == "notice"
        assert config.words("bind") == ("127.0.0.1", "-::1")
        assert config.output_limits("normal") == (2**30, 2**25, 60)
        assert config.output_limits("pubsub") == (2**25, 2**23, 60)

    def test_renamed_commands_come_in_their_order(self) -> None:
        config = Config()
        config.put("rename-command", ("DEBUG", ""))
        config.put("rename-command", ("CONFIG", "secret"))
        assert config.renames() == (("DEBUG", ""), ("CONFIG", "secret"))

    def test_the_wrong_accessor_is_a_mistake(self) -> None:
        with pytest.raises(AssertionError):
            Config().number("appendonly")
        with pytest.raises(AssertionError):
            Config().flag("port")
        with pytest.raises(KeyError):
            Config().text("no-such-option")


class TestMatching:
    def test_a_star_gives_all_but_the_renamed_commands_in_the_order_of_the_table(self) -> None:
        names = [name for name, _ in Config().matching(b"*")]
        assert names == [setting.name for setting in SETTINGS if setting.name not in {"rename-command", "user"}]

    def test_a_pattern_gives_names_and_values(self) -> None:
        assert Config().matching(b"max[cm]*es") == [("maxmemory-samples", "5")]
        assert Config().matching(b"maxcl*s") == [("maxclients", "10000")]

    def test_case_counts(self) -> None:
        assert Config().matching(b"PORT") == []

    def test_bytes_that_are_no_text_match_nothing(self) -> None:
        assert Config().matching(b"\xff\0") == []
