import pickle
from collections.abc import Mapping

import pytest

from disque.spark.options import (
    ADD,
    ANSWER,
    DRAIN,
    ENVIRONMENT,
    FIELDS,
    NO_TABLES,
    STREAM,
    OptionError,
    Options,
    addresses,
    camel,
    check_given,
    choice,
    flag,
    from_environment,
    parse_options,
    switch,
    text,
    use_of_writer,
    whole,
)
from tests.spark.support import options


@pytest.fixture(autouse=True)
def hosts_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what has nothing to do with hosts be said without."""
    monkeypatch.setenv("DISQUE_HOSTS", "node-1")


def refusal(given: Mapping[str, str], use: str = ADD) -> str:
    with pytest.raises(OptionError) as caught:
        parse_options(given, use)
    return str(caught.value)


class TestNames:
    def test_the_table_has_the_names_that_users_write(self) -> None:
        assert {"hosts", "timeoutMs", "pipelineSize", "async", "dedupWindow", "runId", "maxJobsPerTrigger"} <= set(
            FIELDS
        )
        assert camel("max_jobs_per_trigger") == "maxJobsPerTrigger"

    def test_names_are_known_in_any_case(self) -> None:
        assert parse_options({"PIPELINEsize": "7", "queue": "q"}, ADD).pipeline_size == 7

    def test_an_unknown_name_is_refused_with_the_nearest(self) -> None:
        assert refusal({"quue": "q"}) == "unknown option 'quue': did you mean 'queue'?"
        assert refusal({"maxjobpertrigger": "1"}, STREAM).endswith("did you mean 'maxJobsPerTrigger'?")

    def test_where_nothing_is_near_all_are_named(self) -> None:
        assert "action, async, backoff, backoffMs" in refusal({"xyzzy": "1"})

    def test_only_names_that_belong_to_the_use_are_suggested(self) -> None:
        assert "maxJobs" not in refusal({"maxJob": "1"})

    def test_an_option_of_another_use_says_what_it_is_for(self) -> None:
        assert refusal({"maxJobs": "1"}) == "option 'maxJobs' is for reading a batch, not for adding jobs"
        assert "not for reading a stream" in refusal({"dedup": "on"}, STREAM)

    def test_a_path_is_told_to_be_the_queue(self) -> None:
        assert "'queue'" in refusal({"path": "mails"})

    def test_options_of_spark_are_left_alone(self) -> None:
        assert parse_options({"checkpointLocation": "/tmp/x", "queue": "q"}, STREAM).queue == "q"


class TestValues:
    def test_defaults(self) -> None:
        found = options()
        assert (found.pipeline_size, found.dedup, found.dedup_window) == (1000, "on", 600)
        assert (found.ttl, found.retry, found.replicate) == (None, None, None)
        assert options(STREAM).max_jobs_per_trigger == 1000
        assert options(STREAM).poll_timeout_ms == 500, "shorter than a trigger of one second"

    def test_a_number_out_of_range_or_none_is_refused_with_its_name(self) -> None:
        for wrong in ("-1", "x", "", "1.5", "604801"):
            assert "'dedupWindow' must be a whole number from 0 to 604800" in refusal({"dedupWindow": wrong})
        assert whole(1, 3)(" 2 ") == 2

    def test_words_for_yes_and_no(self) -> None:
        assert [flag(word) for word in ("true", "ON", "yes", "1")] == [True] * 4
        assert [flag(word) for word in ("false", "Off", "no", "0")] == [False] * 4
        assert switch("true") == "on"
        assert "true or false" in refusal({"async": "maybe"})

    def test_one_of_some_words(self) -> None:
        assert choice("a", "b")("B ") == "b"
        assert "add or ack or nack" in refusal({"action": "akc"})

    def test_an_empty_text_is_refused(self) -> None:
        assert text("x") == "x"
        assert "'queue' must not be empty" in refusal({"queue": ""})

    def test_a_password_is_shown_by_nothing(self) -> None:
        assert "secret" not in repr(options(password="secret"))

    def test_options_are_picklable(self) -> None:
        assert pickle.loads(pickle.dumps(options(retry=3))) == options(retry=3)


class TestTogether:
    def test_a_drain_must_be_bounded(self) -> None:
        assert "'maxJobs' is required" in refusal({"queue": "q"}, DRAIN)

    def test_where_no_option_arrives_it_may_be_for_a_table(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert refusal({}, DRAIN).endswith(NO_TABLES)
        assert NO_TABLES not in refusal({"queue": "q"}, DRAIN)
        monkeypatch.delenv("DISQUE_HOSTS")
        assert refusal({}).startswith("option 'hosts' is required")
        assert refusal({}).endswith(NO_TABLES)

    def test_a_read_must_name_a_queue(self) -> None:
        assert "'queue' is required" in refusal({}, STREAM)

    def test_a_read_may_name_several_queues(self) -> None:
        assert parse_options({"queues": " b,a ,,b"}, STREAM).sources == ("a", "b")
        assert parse_options({"queue": "a,b"}, STREAM).sources == ("a,b",)
        assert "both given" in refusal({"queue": "a", "queues": "b"}, STREAM)
        assert "'queue' is required" in refusal({"queues": " , "}, STREAM)

    def test_async_cannot_be_unique(self) -> None:
        assert "dedup=off" in refusal({"queue": "q", "async": "true"})
        assert options(**{"async": "on", "dedup": "off"}).background

    def test_a_retry_beyond_the_ttl(self) -> None:
        assert "must be below 'ttl' (50)" in refusal({"queue": "q", "retry": "50", "ttl": "50"})
        assert "option 'delay' (9)" in refusal({"queue": "q", "delay": "9", "ttl": "9"})
        without = options(retry="864000", delay="864000")
        assert (without.retry, without.delay, without.ttl) == (864_000, 864_000, None), "the queue may have a ttl"

    def test_where_notes_of_bad_rows_go(self) -> None:
        assert "'badRowsQueue' is required" in refusal({"queue": "q", "badRows": "queue"})
        assert "needs badRows=queue" in refusal({"queue": "q", "badRows": "skip", "badRowsQueue": "bad"})
        assert options(badRows="queue", badRowsQueue="bad").bad_rows_queue == "bad"

    def test_an_authority_is_for_tls(self) -> None:
        assert "tls=true" in refusal({"queue": "q", "ca": "ca.crt"})
        assert options(tls="on", ca="ca.crt").ca == "ca.crt"

    def test_a_certificate_is_for_tls_and_a_key_for_a_certificate(self) -> None:
        assert refusal({"queue": "q", "cert": "me.crt"}) == "option 'cert' needs tls=true"
        assert "'key' needs 'cert'" in refusal({"queue": "q", "tls": "on", "key": "me.key"})
        both = options(tls="on", cert="me.crt", key="me.key")
        assert (both.cert, both.key) == ("me.crt", "me.key")

    @pytest.mark.parametrize("use", [ADD, STREAM])
    def test_hosts_that_are_none_fail_the_plan(self, use: str) -> None:
        assert "must be names with ports" in refusal({"queue": "q", "hosts": "a:b"}, use)
        assert refusal({"queue": "q", "hosts": ","}, use).startswith("option 'hosts' must name a node")
        assert parse_options({"queue": "q"}, use).hosts == "", "a task may have them in its environment"

    def test_the_use_of_a_write_follows_from_its_action(self) -> None:
        assert use_of_writer({"Action": "ACK"}) == ANSWER
        assert use_of_writer({"queue": "q"}) == use_of_writer({"action": "akc"}) == ADD

    def test_a_delay_is_for_jobs_that_come_again(self) -> None:
        assert "action=nack" in refusal({"action": "ack", "delay": "3"}, ANSWER)
        assert parse_options({"action": "nack", "delay": "3"}, ANSWER).delay == 3

    def test_what_acknowledges_depends_on_the_read(self) -> None:
        assert options(STREAM).ack_mode == "commit"
        assert options(DRAIN, maxJobs=1).ack_mode == "manual"
        assert "must be manual or read" in refusal({"queue": "q", "maxJobs": "1", "ackMode": "commit"}, DRAIN)
        assert "must be commit or manual" in refusal({"queue": "q", "ackMode": "read"}, STREAM)

    def test_deduplication(self) -> None:
        assert options().deduplicates
        assert not options(dedup="off").deduplicates


class TestNoUseYet:
    """Spark asks for columns before it says what it will do."""

    def given(self, **more: object) -> dict[str, str]:
        return {name.lower(): str(value) for name, value in {"hosts": "h", "queue": "q", **more}.items()}

    def test_what_can_be_for_something_is_accepted(self) -> None:
        for more in ({}, {"maxJobs": 5}, {"maxJobsPerTrigger": 5}, {"retry": 5}, {"checkpointLocation": "x"}):
            check_given(self.given(**more))
        check_given({"hosts": "h", "action": "ack"})
        check_given({"hosts": "h"})  # each row may name its queue

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            ({"maxJobPerTrigger": 5}, "unknown option 'maxjobpertrigger': did you mean 'maxJobsPerTrigger'"),
            ({"xyz": 5}, "unknown option 'xyz': options are ackMode, action"),
            ({"maxJobsPerTrigger": 0}, "'maxJobsPerTrigger' must be a whole number"),
            ({"maxJobsPerTrigger": 5, "maxJobs": 5}, "'maxJobs' for reading a batch: drop one$"),
            ({"maxJobs": 5, "poisonTries": 2}, "'maxJobs' is for reading a batch, 'poisonTries' for reading a stream"),
            ({"retry": 5, "ttl": 5}, r"option 'retry' \(5\) must be below 'ttl' \(5\)"),
            ({"hosts": "a:b"}, "option 'hosts'"),
        ],
    )
    def test_what_cannot_is_refused(self, more: dict[str, object], message: str) -> None:
        with pytest.raises(OptionError, match=message):
            check_given(self.given(**more))

    def test_a_table_is_refused_since_its_options_will_not_be_there(self) -> None:
        table = self.given(owner="me", provider="disque", **{"option.hosts": "h", "option.queue": "q"})
        with pytest.raises(OptionError, match=r"^CREATE TABLE cannot be used.*use CREATE TEMPORARY VIEW"):
            check_given(table)

    def test_without_hosts_nothing_is_planned(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("DISQUE_HOSTS")
        with pytest.raises(OptionError, match="option 'hosts' is required"):
            check_given({"queue": "q"})
        monkeypatch.setenv("DISQUE_HOSTS", "a:1")
        check_given({"queue": "q"})


class TestPlace:
    def test_names_of_containers_and_of_other_scripts_are_hosts(self) -> None:
        assert addresses("my_shop-1:1,b\u00fccher.example:2") == (("my_shop-1", 1), ("b\u00fccher.example", 2))

    def test_hosts_with_and_without_ports(self) -> None:
        assert addresses("a:1, b ,[::1]:3,[::2],10.0.0.1:4") == (
            ("a", 1), ("b", 7711), ("::1", 3), ("::2", 7711), ("10.0.0.1", 4),
        )  # fmt: skip

    @pytest.mark.parametrize(
        "wrong",
        [",", "a:b", "a:0", "a:70000", ":1", "::1", "a b", "disque://a:1", "u:p@h:1", "a;b:1", 64 * "\u00fc" + ";"],
    )
    def test_what_is_no_host_is_refused(self, wrong: str) -> None:
        with pytest.raises(OptionError, match="'hosts'"):
            addresses(wrong)

    def test_the_environment_fills_in_what_was_not_given(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in zip(ENVIRONMENT.values(), ("h:1", "ada", "secret"), strict=True):
            monkeypatch.setenv(name, value)
        assert from_environment(Options()) == Options(hosts="h:1", user="ada", password="secret")
        assert from_environment(Options(hosts="x:2")).hosts == "x:2"

    def test_without_hosts_nothing_can_be_done(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("DISQUE_HOSTS", raising=False)
        with pytest.raises(OptionError, match="'hosts' is required"):
            from_environment(Options())
