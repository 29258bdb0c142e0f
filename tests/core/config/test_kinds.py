import pytest
from hypothesis import given
from hypothesis import strategies as st

from disque.core.base.words import split_words
from disque.core.config import kinds
from disque.core.config.kinds import Kind, Value

raw_text = st.one_of(st.binary(max_size=40).map(kinds.as_text), st.text(max_size=40))


@given(st.binary())
def test_bytes_go_out_as_they_came_in(raw: bytes) -> None:
    assert kinds.as_bytes(kinds.as_text(raw)) == raw


@given(raw_text)
def test_quoted_text_is_one_line_and_one_word(text: str) -> None:
    line = kinds.quoted(text)
    assert not set(line) & set("\0\r\n")
    assert split_words(kinds.as_bytes(line), keep_empty=True) == [kinds.as_bytes(text)]


@given(raw_text)
def test_a_word_of_a_line_is_read_back_as_it_was(word: str) -> None:
    assert split_words(kinds.as_bytes(kinds.word_text(word)), keep_empty=True) == [kinds.as_bytes(word)]


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("2k", 2000), ("2kb", 2048), ("1M", 10**6), ("1Mb", 2**20), ("3g", 3 * 10**9), ("3GB", 3 << 30)],
)
def test_units_of_sizes_are_powers_of_1000_or_with_a_b_of_1024(text: str, size: int) -> None:
    assert kinds.size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "b", "kb", "-1", "+1", "1.5gb", "1 gb", "1tb", "1bb", "٣", "9" * 20])
def test_what_is_no_size(text: str) -> None:
    assert kinds.size_bytes(text) is None


@given(st.integers(0, kinds.MAX_SIZE))
def test_a_size_is_written_exactly(size: int) -> None:
    assert kinds.size_bytes(kinds.size_text(size)) == size


def test_a_size_is_written_in_the_largest_unit_that_is_exact() -> None:
    assert [kinds.size_text(size) for size in (0, 1, 1000, 1024, 1536, 2**20, 5 * 2**30)] == [
        "0", "1", "1000", "1kb", "1536", "1mb", "5gb",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", " 1", "1 ", "1_0", "0x1", "1.0", "one", "--1", "٣", "1" * 20])
def test_what_is_no_whole_number(text: str) -> None:
    assert kinds.whole_number(text) is None


@pytest.mark.parametrize(
    ("directory", "path", "reached"),
    [
        (".", "a", "a"),
        ("a", "b", "a/b"),
        ("/a", "b", "/a/b"),
        ("/", "b", "/b"),
        ("/a/", "b", "/a/b"),
        ("/a", "/b", "/b"),
        ("/a", ".", "/a"),
    ],
)
def test_a_relative_path_counts_from_the_directory(directory: str, path: str, reached: str) -> None:
    assert kinds.path_from(directory, path) == reached


@pytest.mark.parametrize(
    ("kind", "words", "value"),
    [
        (kinds.Whole(-5, 5), ("-5",), -5),
        (kinds.Whole(-5, 5), ("+5",), 5),
        (kinds.Whole(-5, 5), ("6",), None),
        (kinds.Clamped(1, 500), ("0",), 1),
        (kinds.Clamped(1, 500), ("501",), 500),
        (kinds.Clamped(1, 500), ("-1",), None),
        (kinds.KeepAlive(0, 32767), ("YES",), 300),
        (kinds.KeepAlive(0, 32767), ("no",), 0),
        (kinds.KeepAlive(0, 32767), ("60",), 60),
        (kinds.KeepAlive(0, 32767), ("32768",), None),
        (kinds.Size(1024, 2048), ("1kb",), 1024),
        (kinds.Size(1024, 2048), ("3kb",), None),
        (kinds.YesNo(), ("Yes",), True),
        (kinds.YesNo(), ("1",), None),
        (kinds.OneOf("acks", "noeviction"), ("ACKS",), "acks"),
        (kinds.OneOf("acks", "noeviction"), ("",), None),
        (kinds.Text(2), ("é",), "é"),
        (kinds.Text(2), ("éa",), None),
        (kinds.Path(), ("a\0b",), None),
        (kinds.Path(), ("a" * 4096,), None),
        (kinds.NeededPath(), ("",), None),
        (kinds.FileName(), ("a.aof",), "a.aof"),
        (kinds.FileName(), ("a/b",), None),
        (kinds.FileName(), ("..",), None),
        (kinds.Label(), ("rack-1",), "rack-1"),
        (kinds.Label(), ("",), ""),
        (kinds.Label(), ("a b",), None),
        (kinds.Label(), ("ä",), None),
        (kinds.Label(), ("x" * 65,), None),
        (kinds.Permissions(), ("0777",), 0o777),
        (kinds.Permissions(), ("1000",), None),
        (kinds.Permissions(), ("8",), None),
        (kinds.Addresses(2), ("::1", "-10.0.0.1"), ("::1", "-10.0.0.1")),
        (kinds.Addresses(2), ("::1 -10.0.0.1",), ("::1", "-10.0.0.1")),
        (kinds.Addresses(2), ("a b c",), None),
        (kinds.Addresses(2), ("-",), None),
        (kinds.Addresses(2), ("a\0",), None),
        (kinds.OutputLimits(), ("normal", "1mb", "1k", "5"), ("normal", "1048576", "1000", "5")),
        (kinds.OutputLimits(), ("Normal 0 0 0",), ("normal", "0", "0", "0")),
        (
            kinds.OutputLimits(),
            ("pubsub 1k 0 1 normal 2k 0 2",),
            ("pubsub", "1000", "0", "1", "normal", "2000", "0", "2"),
        ),
        (kinds.OutputLimits(), ("normal 0 0 0 normal 0 0 0",), None),
        (kinds.OutputLimits(), ("",), None),
        (kinds.OutputLimits(), ("slave", "0", "0", "0"), None),
        (kinds.OutputLimits(), ("normal", "0", "0", "-1"), None),
        (kinds.OutputLimits(), ("normal", "0", "0"), None),
        (kinds.Renames(), ("DEBUG", ""), ("DEBUG", "")),
        (kinds.Renames(), ("", "x"), None),
    ],
)
def test_words_become_a_value_or_are_refused(kind: Kind, words: tuple[str, ...], value: Value | None) -> None:
    assert kind.parse(words) == value


def test_permissions_are_shown_in_octal() -> None:
    assert kinds.Permissions().show(0o750) == "750"


def test_an_output_limit_is_shown_in_bytes_and_written_with_units() -> None:
    limit = ("normal", "1073741824", "1000", "60")
    assert kinds.OutputLimits().show(limit) == "normal 1073741824 1000 60"
    assert kinds.OutputLimits().write(limit) == "normal 1gb 1000 60"


def test_each_class_of_output_limits_is_set_by_itself() -> None:
    both = ("normal", "5", "4", "3", "pubsub", "3", "2", "1")
    assert kinds.OutputLimits().merge(both, ("pubsub", "9", "8", "7")) == (*both[:4], "pubsub", "9", "8", "7")


def test_pairs_of_names_are_shown_as_words() -> None:
    assert kinds.Renames().show(("DEBUG", "", "CONFIG", "c f")) == 'DEBUG "" CONFIG "c f"'
