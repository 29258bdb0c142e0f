"""The rules that make a user: what each does, what is refused, and that what is shown makes the same user again."""

import time
from hashlib import sha256

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from disque.core.auth import rules
from disque.core.commands import ROWS
from disque.core.model.catalog import Catalog
from disque.core.model.claims import EITHER, READ, WRITE
from disque.core.model.patterns import BOTH, GLOBS_MOST, NAME_COMPARED, Index, Pattern
from disque.core.model.user import User, copy_of, digest_of, of_queues

CATALOG = Catalog(ROWS)
HASH = sha256(b"x").hexdigest()


def user(*words: str) -> User:
    made = User(b"u")
    assert rules.fault(made, [word.encode() for word in words], CATALOG) == b""
    return made


def shown(*words: str) -> str:
    return user(*words).describe().decode()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("", "off resetchannels -@all"),
        ("on nopass ~* &* +@all", "on nopass ~* &* +@all"),
        ("ON AllKeys allchannels allcommands", "on ~* &* +@all"),
        ("on >x", f"on #{HASH} resetchannels -@all"),
        (f"#{HASH} #{HASH} >x", f"off #{HASH} resetchannels -@all"),
        ("nopass >x", f"off #{HASH} resetchannels -@all"),
        (">x nopass", "off nopass resetchannels -@all"),
        (">x <x", "off resetchannels -@all"),
        (f">x !{HASH}", "off resetchannels -@all"),
        ("nopass resetpass", "off resetchannels -@all"),
        ("~a ~a %R~a", "off ~a resetchannels -@all"),
        ("%R~a %W~a", "off ~a resetchannels -@all"),
        ("%R~a* %W~b* %RW~c", "off %R~a* %W~b* ~c resetchannels -@all"),
        ("%R~* ~a", "off %R~* ~a resetchannels -@all"),
        ("~a ~*", "off ~* resetchannels -@all"),
        ("~a resetkeys ~b", "off ~b resetchannels -@all"),
        ("&a &a &b", "off resetchannels &a &b -@all"),
        ("&a &* resetchannels &b", "off resetchannels &b -@all"),
        ("+getjob +GETJOB", "off resetchannels -@all +getjob"),
        ("+getjob -getjob", "off resetchannels -@all"),
        ("+@read -@read", "off resetchannels -@all"),
        ("+@all +getjob", "off resetchannels +@all"),
        ("+@all -@admin +config|get", "off resetchannels +@all -@admin +config|get"),
        ("+config -config|get +config|get", "off resetchannels -@all +config"),
        ("+config|get +config", "off resetchannels -@all +config"),
        ("+@all -getjob +getjob", "off resetchannels +@all"),
        ("+@consume -@dangerous", "off resetchannels -@all +@consume -@dangerous"),
        ("+@all nocommands +@produce", "off resetchannels -@all +@produce"),
        ("on nopass ~* &* +@all reset", "off resetchannels -@all"),
        ("sanitize-payload clearselectors", "off resetchannels -@all"),
    ],
)
def test_what_rules_come_to(words: str, line: str) -> None:
    assert shown(*words.split()) == line
    assert shown(*line.split()) == line


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("foo", "Syntax error"),
        ("%X~a", "Syntax error"),
        ("%~a", "Syntax error"),
        ("%R", "Syntax error"),
        ("+nope", "Unknown command or category name in ACL"),
        ("-", "Unknown command or category name in ACL"),
        ("+@nope", "Unknown command or category name in ACL"),
        ("+config|nope", "Unknown command or category name in ACL"),
        ("+getjob|x", "Unknown command or category name in ACL"),
        ("+client|id|x", "Allowing first-arg of a subcommand is not supported"),
        ("#123", rules.BAD_HASH.decode()),
        ("#" + HASH.upper(), rules.BAD_HASH.decode()),
        ("!abc", rules.BAD_HASH.decode()),
        ("<x", rules.NO_PASSWORD.decode()),
        ("(~a +getjob)", rules.NO_SELECTORS.decode()),
        ("~a b", rules.BAD_BYTES.decode()),
        ("&" + "c" * 513, rules.LONG_PATTERN.decode()),
    ],
)
def test_what_is_refused(word: str, text: str) -> None:
    shown = {"<x": "<(redacted)"}.get(word, word)[:128]
    assert rules.fault(User(b"u"), [word.encode()], CATALOG) == (
        f"ERR Error in ACL SETUSER modifier '{shown}': {text}".encode()
    )


def test_a_pattern_after_all_is_refused() -> None:
    assert b"Adding a pattern after the * pattern (or the 'allkeys' flag)" in rules.fault(
        User(b"u"), [b"allkeys", b"~b"], CATALOG
    )
    assert b"Try 'resetchannels' to start with an empty list of channels" in rules.fault(
        User(b"u"), [b"&*", b"&b"], CATALOG
    )


def test_all_rules_together_have_a_bound() -> None:
    many = [b"~%0500d" % number for number in range(40)]
    assert rules.fault(User(b"u"), many, CATALOG) == b"ERR " + rules.TOO_LONG


@pytest.mark.parametrize("name", [b"", b"a b", b"a\0", b"a\n", b"x" * 257])
def test_names_that_cannot_be(name: bytes) -> None:
    assert rules.name_fault(name)


def test_a_user_of_another_version_keeps_what_is_not_known_here() -> None:
    line = b"on ~* &* +@all -@robots -fly -fly|high"
    assert rules.read(b"u", line.split(b" "), CATALOG) is None
    made = rules.read(b"u", line.split(b" "), CATALOG, lenient=True)
    assert made is not None
    assert made.describe() == line
    assert made.may_run(b"getjob")


def test_which_queues() -> None:
    made = user("%R~a*", "%W~b?", "~c")
    assert [made.may(b"a1", access) for access in (READ, WRITE, EITHER)] == [True, False, True]
    assert [made.may(b"b1", access) for access in (READ, WRITE, EITHER)] == [False, True, True]
    assert [made.may(b"c", access) for access in (READ, WRITE, EITHER)] == [True, True, True]
    assert not made.sees(b"d")
    assert made.may_all(b"a1", READ)
    assert not made.may_all(b"", READ)
    assert not made.may_all(b"b", WRITE)
    assert user("%R~*").reads_all()
    copy = copy_of(made)
    assert copy.describe() == made.describe()


def test_which_channels() -> None:
    made = user("&news:*", "&x")
    assert [made.may_channel(name) for name in (b"news:1", b"x", b"y")] == [True, True, False]
    assert [made.may_pattern(name) for name in (b"news:*", b"news:1*", b"*")] == [True, False, False]


def test_patterns_that_are_slow_to_match_are_bounded() -> None:
    made = user(*[f"~{'*a' * 250}b{number}" for number in range(30)])
    before = time.process_time()
    assert not made.may(b"a" * 1000, READ)
    assert not made.may(b"a" * 100_000, READ)  # not compared at all
    assert time.process_time() - before < 20  # without its bounds this takes hours
    assert user("%R~*", "%R~x").may(b"a" * 100_000, READ)


def test_rights_to_queues_travel_as_words() -> None:
    made = user("%R~a*", "%W~b*", "~c")
    again = of_queues(b"u", b" ".join(made.words_of_queues()))
    assert again is not None
    assert again.words_of_queues() == made.words_of_queues()
    assert of_queues(b"u", b"nonsense") is None
    assert of_queues(b"u", b"~" + b"x" * 513) is None
    none = of_queues(b"u", b"")
    assert none is not None
    assert not none.may(b"a", EITHER)


def test_a_password_is_kept_as_its_digest() -> None:
    made = user("on", ">secret")
    assert made.passwords == [digest_of(b"secret")]
    assert (made.fits(b"secret"), made.fits(b"wrong"), made.fits(b"")) == (True, False, False)
    assert not user(">secret").fits(b"secret")
    assert user("on", "nopass").fits(b"whatever")


WORDS = st.one_of(
    st.sampled_from(
        [
            *("on", "off", "nopass", "resetpass", "reset", "allkeys", "resetkeys", "allchannels", "resetchannels"),
            *("allcommands", "nocommands", "~a*", "%R~b*", "%W~b*", "~*", "&x", "&*", ">p", "<p", "+@all", "-@all"),
            *("+@read", "-@read", "+getjob", "-getjob", "+config", "-config|get", "+config|get", "+@admin", "-@admin"),
        ]
    ),
    st.text(max_size=6),
).map(str.encode)


@given(st.lists(WORDS, max_size=12))
@example([b"+getjob", b"-@read", b"+getjob"])
@example([b"+@consume", b"-getjob", b"+@consume"])
def test_what_is_shown_makes_the_same_user(words: list[bytes]) -> None:
    made = User(b"u")
    for word in words:
        rules.apply(made, word, CATALOG)
    again = rules.read(b"u", made.describe().split(b" "), CATALOG)
    assert again is not None
    assert again.describe() == made.describe()
    assert again.allowed == made.allowed
    assert made.allowed == CATALOG.resolve(made.rules, base=made.base)


PATTERNS = st.tuples(st.text("ab*?[]\\\\", max_size=4).map(str.encode), st.sampled_from([READ, WRITE, BOTH]))


@given(st.lists(PATTERNS, max_size=6), st.text("ab*", max_size=5).map(str.encode), st.sampled_from([READ, WRITE, BOTH]))
def test_patterns_that_are_looked_up_say_what_each_says_alone(
    said: list[tuple[bytes, int]], name: bytes, wanted: int
) -> None:
    patterns = [Pattern(text, access) for text, access in said]
    expected = any(one.access & wanted and one.glob.matches(name) for one in patterns)
    assert Index(patterns).allows(name, wanted) == expected


def test_a_name_that_is_too_long_fits_only_what_fits_all() -> None:
    name = b"a" * (NAME_COMPARED + 1)
    assert not Index([Pattern(b"a*", READ), Pattern(name, READ), Pattern(b"**", READ)]).allows(name, READ)
    assert Index([Pattern(b"*", READ)]).allows(name, READ)
    assert not Index([Pattern(b"*", READ)]).allows(name, WRITE)


def test_patterns_that_each_name_is_compared_with_are_few() -> None:
    names = [f"~name-{number}" for number in range(300)] + [f"~beginning-{number}*" for number in range(300)]
    assert user(*names).looks() == 1
    globs = [f"%R~*-{number}" for number in range(GLOBS_MOST)]
    made = user(*names, *globs)
    assert made.looks() > 1
    for words in ([*globs, "~*-more"], [f"&*-{number}" for number in range(GLOBS_MOST + 1)]):
        wrong = rules.fault(User(b"u"), [word.encode() for word in words], CATALOG)
        assert wrong.endswith(rules.MANY_GLOBS), words[-1]
    assert user(*globs, "%W~*-0").may(b"x-0", WRITE)
    assert of_queues(b"u", b" ".join(made.words_of_queues())) is not None
    assert of_queues(b"u", b" ".join([*made.words_of_queues(), b"~*-more"])) is None
    channels = user(*[f"&*-{number}" for number in range(GLOBS_MOST)], "&news", "&job:*")
    assert [channels.may_channel(name) for name in (b"x-7", b"news", b"job:1", b"x-777")] == [True, True, True, False]


def test_patterns_beyond_of_another_version_are_left_out_and_the_user_stays() -> None:
    words = [b"on", *[b"~*-%d" % number for number in range(GLOBS_MOST + 1)], b"~name", b"&*", b"+@all"]
    assert rules.read(b"default", words, CATALOG) is None
    made = rules.read(b"default", words, CATALOG, lenient=True)
    assert made is not None
    assert [made.may(name, READ) for name in (b"x-0", b"name", b"x-%d" % GLOBS_MOST)] == [True, True, False]
