from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disque.core.config import kinds
from disque.core.config.conffile import MAX_DEPTH, MAX_FILES, ConfigError, from_argv, load, load_options, rewrite
from disque.core.config.setting import Setting
from disque.core.config.settings import BY_NAME, SETTINGS, Config, SettingError

FATAL = "\n*** FATAL CONFIG FILE ERROR ***\nReading the configuration file, at line {}\n>>> '{}'\n{}\n"


class Files:
    """What may be included, by path."""

    def __init__(self, **texts: str) -> None:
        self.texts = texts

    def __call__(self, path: str) -> str:
        if path not in self.texts:
            raise FileNotFoundError(2, "No such file or directory")
        return self.texts[path]


def loaded(text: str, read: Files | None = None) -> Config:
    config = Config()
    load(text, "disque.conf", config, read or Files())
    return config


def refusal(text: str, read: Files | None = None) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        loaded(text, read)
    return caught.value


class TestLoad:
    def test_lines_count_in_their_order(self) -> None:
        assert loaded("port 1\ntimeout 5\nport 2\n").changed() == {"port": "2", "timeout": "5"}

    def test_blank_lines_comments_spaces_and_carriage_returns_say_nothing(self) -> None:
        assert loaded("\n   \r\n\v\f\n# port 1\n\t # port 2\n  timeout   5  \r\n").changed() == {"timeout": "5"}

    def test_names_are_taken_in_any_case(self) -> None:
        assert loaded("PORT 1\nMaxMemory 1GB\n").changed() == {"port": "1"}

    def test_a_quoted_value_keeps_spaces_escapes_and_emptiness(self) -> None:
        config = loaded('requirepass "a \\"b\\" \\x00"\nlogfile \'x y\'\npidfile ""\n')
        assert config.text("requirepass") == 'a "b" \0'
        assert config.text("logfile") == "x y"
        assert config.text("pidfile") == ""

    def test_bytes_that_are_no_text_stay_what_they_are(self) -> None:
        assert kinds.as_bytes(loaded('requirepass "\\xff\\xe9"\n').text("requirepass")) == b"\xff\xe9"

    def test_a_last_line_needs_no_end(self) -> None:
        assert loaded("port 1").number("port") == 1

    def test_a_relative_dir_counts_from_the_one_before(self) -> None:
        assert loaded("dir /var\ndir lib\n").text("dir") == "/var/lib"

    def test_renamed_commands_gather(self) -> None:
        config = loaded('rename-command DEBUG ""\nrename-command CONFIG conf\n')
        assert config.renames() == (("DEBUG", ""), ("CONFIG", "conf"))

    def test_old_options_are_kept(self) -> None:
        text = "databases 1\nmaxmemory-samples 3\nactiverehashing no\nhz 100\nwatchdog-period 5\n"
        assert loaded(text).changed() == {
            "maxmemory-samples": "3",
            "databases": "1",
            "watchdog-period": "5",
            "hz": "100",
            "activerehashing": "no",
        }


class TestFormerNames:
    def test_the_file_and_the_command_line_know_them(self) -> None:
        assert loaded("Workers 3").number("processes") == 3
        config = Config()
        load_options(from_argv(["--workers", "4"]).options, config, Files())
        assert config.number("processes") == 4
        assert config.matching(b"WORKERS") == [("workers", "4")]
        assert config.matching(b"proc*") == [("processes", "4")]
        assert config.matching(b"*work*") == []

    def test_the_later_line_wins_whatever_it_calls_the_option(self) -> None:
        assert loaded("workers 3\nprocesses 2").number("processes") == 2
        assert loaded("processes 3\nworkers 2").number("processes") == 2

    def test_a_rewritten_file_has_the_name_of_today_once(self) -> None:
        text = "# few\nworkers 3\nport 7711\n"
        assert rewrite(text, loaded(text)) == "# few\nprocesses 3\nport 7711\n"

    def test_an_error_shows_the_line_as_it_was_written(self) -> None:
        assert refusal("workers many").line == "workers many"


class TestErrors:
    def test_the_text_is_that_of_the_reference_with_what_was_expected(self) -> None:
        error = refusal("# first\nport 7711x\n")
        assert str(error) == (
            FATAL.format(2, "port 7711x", "Invalid argument '7711x' for 'port'")
            + "Expected: port <a whole number from 0 to 65535>\n(in disque.conf)\n"
        )

    def test_an_unknown_name_is_answered_with_the_nearest_one(self) -> None:
        error = refusal("prot 7711\n")
        assert (error.number, error.line) == (1, "prot 7711")
        assert error.reason == "Bad directive or wrong number of arguments"
        assert error.hint == "Did you mean 'port'?"

    @pytest.mark.parametrize("name", ["qwertyuiop", "x" * 100_000, '""'])
    def test_a_name_that_is_near_to_none(self, name: str) -> None:
        assert refusal(f"{name} 1\n").hint.startswith("Expected: the name of an option")

    @pytest.mark.parametrize("line", ["port", "port 1 2", "rename-command x", "requirepass a b", "bind", "include"])
    def test_the_number_of_words_must_fit(self, line: str) -> None:
        error = refusal(f"{line}\n")
        assert error.reason == "Bad directive or wrong number of arguments"
        assert error.hint.startswith(f"Expected: {line.split(maxsplit=1)[0]} <")

    def test_a_file_name_may_be_no_path(self) -> None:
        assert refusal("appendfilename /a/b\n").reason == "appendfilename can't be a path, just a filename"

    def test_quotes_must_close(self) -> None:
        assert refusal('logfile "abc\n').reason == "Unbalanced quotes in configuration line"

    @pytest.mark.parametrize("line", ["\0", "port 1\0", 'requirepass "a\0b"'])
    def test_a_bare_nul_does_not_cut_a_line_short(self, line: str) -> None:
        assert refusal(f"{line}\n").reason == "NUL byte in configuration line"

    @pytest.mark.parametrize("setting", [one for one in SETTINGS if one.name != "user"], ids=lambda one: one.name)
    def test_no_option_takes_twenty_words(self, setting: Setting) -> None:
        error = refusal(setting.name + " x" * 20)
        assert error.hint == setting.usage()


class TestInclude:
    def test_a_file_is_read_in_place_of_the_line(self) -> None:
        files = Files(a="port 2\ntimeout 2\n")
        assert loaded("port 1\ninclude a\ntimeout 3\n", files).changed() == {"port": "2", "timeout": "3"}

    def test_a_relative_path_counts_from_dir(self) -> None:
        assert loaded("dir /etc\ninclude a\n", Files(**{"/etc/a": "port 2\n"})).number("port") == 2

    def test_an_error_names_the_file_and_its_line(self) -> None:
        error = refusal("\ninclude a\n", Files(a="port 1\nport x\n"))
        assert (error.source, error.number, error.line) == ("a", 2, "port x")

    def test_a_missing_file_is_named_with_the_line_that_wanted_it(self) -> None:
        error = refusal("port 1\ninclude a\n")
        assert (error.source, error.number) == ("disque.conf", 2)
        assert error.reason == "Can't open the included file 'a': No such file or directory"

    def test_a_file_inside_itself_is_refused(self) -> None:
        assert refusal("include a\n", Files(a="include b\n", b="include a\n")).reason == "Too many included files"

    def test_depth_has_a_limit(self) -> None:
        chain = {f"f{n}": f"include f{n + 1}\n" for n in range(MAX_DEPTH)} | {f"f{MAX_DEPTH}": ""}
        loaded("include f1\n", Files(**chain))
        assert refusal("include f0\n", Files(**chain)).reason == "Too many included files"

    def test_number_has_a_limit(self) -> None:
        loaded("include a\n" * MAX_FILES, Files(a=""))
        assert refusal("include a\n" * (MAX_FILES + 1), Files(a="")).number == MAX_FILES + 1


class TestCommandLine:
    @pytest.mark.parametrize(
        ("argv", "path", "options"),
        [
            ([], None, ()),
            (["disque.conf"], "disque.conf", ()),
            (["-"], "-", ()),
            (["--port", "1"], None, (("port", "1"),)),
            (["c", "--bind", "::1", "-127.0.0.1", "--daemonize", "yes"], "c",
             (("bind", "::1", "-127.0.0.1"), ("daemonize", "yes"))),
            (["--port 1", "--slowlog-log-slower-than", "-1"], None, (("port", "1"), ("slowlog-log-slower-than", "-1"))),
            (["--requirepass", ""], None, (("requirepass", ""),)),
            (["c", "d"], "c", (("", "d"),)),
            (["--"], None, (("",),)),
        ],
    )  # fmt: skip
    def test_words_are_taken_apart(self, argv: list[str], path: str | None, options: Sequence[Sequence[str]]) -> None:
        assert from_argv(argv) == (path, options)

    def test_options_count_after_the_file(self) -> None:
        config = loaded("port 1\ntimeout 1\n")
        load_options((("PORT", "2"),), config, Files())
        assert config.changed() == {"port": "2", "timeout": "1"}

    def test_errors_are_those_of_the_file(self) -> None:
        with pytest.raises(ConfigError) as caught:
            load_options((("port", "1"), ("timeot", "5")), Config(), Files())
        assert str(caught.value) == (
            FATAL.format(2, "--timeot 5", "Bad directive or wrong number of arguments")
            + "Did you mean 'timeout'?\n(in the command line)\n"
        )

    @pytest.mark.parametrize("argv", [["--"], ["c", "d"]])
    def test_words_that_belong_to_no_option_are_refused(self, argv: list[str]) -> None:
        with pytest.raises(ConfigError, match="Bad directive"):
            load_options(from_argv(argv).options, Config(), Files())

    def test_a_file_may_be_included(self) -> None:
        config = Config()
        load_options((("include", "a"),), config, Files(a="port 5\n"))
        assert config.number("port") == 5


def changed(text: str, read: Files | None = None, **values: str) -> Config:
    config = loaded(text, read)
    for name, value in values.items():
        config.set_text(name.replace("_", "-"), value)
    return config


class TestRewrite:
    def test_an_unchanged_file_stays_as_it_is(self) -> None:
        text = '# mine\n\nport 7712\nlogfile "x"\n# end\n'
        assert rewrite(text, loaded(text)) == text

    def test_the_first_line_gets_the_value_and_the_others_become_blank(self) -> None:
        text = "timeout 1\n# between\nTIMEOUT 2\nport 1\n"
        assert rewrite(text, changed(text, timeout="9")) == "timeout 9\n# between\n\nport 1\n"

    def test_runs_of_blank_lines_become_one(self) -> None:
        text = "port 1\n\n\ntimeout 1\ntimeout 2\n  \n# end\n"
        assert rewrite(text, loaded(text)) == "port 1\n\ntimeout 2\n\n# end\n"

    def test_options_without_a_line_come_at_the_end_under_one_signature(self) -> None:
        text = "port 1\n"
        once = rewrite(text, changed(text, timeout="9", maxmemory="2gb"))
        assert once == "port 1\n# Generated by CONFIG REWRITE\nmaxmemory 2gb\ntimeout 9\n"
        assert rewrite(once, changed(once, hz="20")) == once + "hz 20\n"

    def test_defaults_are_not_added_but_a_line_that_is_there_gets_them(self) -> None:
        assert rewrite("", Config()) == ""
        assert rewrite("timeout 5\n", changed("timeout 5\n", timeout="0")) == "timeout 0\n"

    def test_text_is_quoted_and_stays_on_its_line(self) -> None:
        config = changed("", requirepass='a b"\n\0\x85\\', dir="/var/lib")
        assert rewrite("", config) == (
            '# Generated by CONFIG REWRITE\nrequirepass "a b\\"\\n\\x00\\xc2\\x85\\\\"\ndir "/var/lib"\n'
        )

    def test_sizes_have_units_when_that_is_exact(self) -> None:
        text = "maxmemory 1\n"
        assert rewrite(text, changed(text, maxmemory="3145728")) == "maxmemory 3mb\n"
        assert rewrite(text, changed(text, maxmemory="3145729")) == "maxmemory 3145729\n"

    def test_what_is_not_set_any_more_loses_its_line(self) -> None:
        text = "port 1\nrequirepass secret\ntimeout 1\n"
        assert rewrite(text, changed(text, requirepass="")) == "port 1\n\ntimeout 1\n"

    def test_an_emptied_unix_socket_and_bind_lose_their_lines(self) -> None:
        text = 'port 1\nunixsocket ""\nbind ""\n'
        assert rewrite(text, loaded(text)) == "port 1\n\n"

    def test_includes_renamed_commands_and_unknown_lines_are_left_alone(self) -> None:
        text = 'include  a\nrename-command  X y\nRename-Command Z ""\nuser a on\nuser b >x\nloadmodule  x\nlogfile "o\n'
        assert rewrite(text, Config()) == text

    def test_an_option_of_an_included_file_comes_behind_the_include(self) -> None:
        files = Files(a="timeout 5\nrequirepass secret\n")
        text = "timeout 1\ninclude a\nport 1\n"
        config = changed(text, files, timeout="0", requirepass="")
        again = rewrite(text, config)
        assert again == '\ninclude a\nport 1\n# Generated by CONFIG REWRITE\nrequirepass ""\ntimeout 0\n'
        assert loaded(again, files).changed() == config.changed()

    def test_a_line_behind_the_include_is_good_enough(self) -> None:
        files = Files(a="timeout 5\n")
        text = "timeout 1\ninclude a\ntimeout 2\n"
        assert rewrite(text, changed(text, files, timeout="7")) == "\ninclude a\ntimeout 7\n"


# Values of every kind for files and for CONFIG SET: good ones, and now and then one that is refused.
free_text = st.one_of(st.text(max_size=12), st.binary(max_size=12).map(kinds.as_text))
words_of_values = st.one_of(
    st.integers(-2, 70_000).map(str),
    st.sampled_from(["yes", "no", "1gb", "64kb", "3mb", "normal 1gb 5 6", "noeviction", "debug", "always", "/a b"]),
    free_text,
)
names = st.sampled_from([*BY_NAME, "include"])


@st.composite
def file_lines(draw: st.DrawFn) -> str:
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return draw(st.sampled_from(["", "  ", "# note", "#port 1", "\t# timeout 5\r"]))
    name = draw(names)
    if name == "include":
        return "include inner"
    quoted = [kinds.quoted(word) for word in draw(st.lists(words_of_values, min_size=1, max_size=2))]
    line = f"{name} {' '.join(quoted)}"
    return line if accepted(line) else ""


def accepted(line: str) -> bool:
    try:
        loaded(line)
    except ConfigError:
        return False
    return not line.startswith("dir")


@given(
    st.lists(file_lines(), max_size=12).map("\n".join),
    st.lists(file_lines().filter(lambda line: "include" not in line), max_size=5).map("\n".join),
    st.lists(st.tuples(st.sampled_from(sorted(BY_NAME)), words_of_values), max_size=12),
)
def test_a_rewritten_file_makes_the_same_config_and_is_rewritten_to_itself(
    text: str, inner: str, sets: list[tuple[str, str]]
) -> None:
    files = Files(inner=inner)
    config = loaded(text, files)
    for name, value in sets:
        try:
            config.set_text(name, f"/{value}" if name == "dir" else value)
        except SettingError:
            continue
    once = rewrite(text, config)
    again = loaded(once, files)
    assert again.changed() == config.changed()
    assert rewrite(once, again) == once


@given(st.text(max_size=200))
def test_text_that_says_nothing_known_is_refused_with_its_line(text: str) -> None:
    lines = [line.strip(" \t\r\n\v\f") for line in text.split("\n")]
    if all(not line or line.startswith("#") for line in lines):
        assert loaded(text).changed() == {}
    else:
        error = refusal(text)
        assert error.line == lines[error.number - 1]


@given(st.text(max_size=200))
def test_lines_that_nobody_understands_survive_a_rewrite(text: str) -> None:
    again = rewrite(text, Config())
    assert rewrite(again, Config()) == again
