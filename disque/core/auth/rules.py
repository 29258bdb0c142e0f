"""The rules that make a user, in the words of Redis 7: how they are read, one after the other.

There are no selectors (rules in parentheses): a user has one set of rights.
"""

from typing import Final

from disque.core.model.catalog import Catalog
from disque.core.model.patterns import BOTH, GLOBS_MOST, Pattern, is_glob
from disque.core.model.user import KINDS_OF_PATTERN, NAME_MOST, PATTERN_MOST, RULES_MOST, User, digest_of

SYNTAX: Final = b"Syntax error"
UNKNOWN: Final = b"Unknown command or category name in ACL"
FIRST_ARGUMENT: Final = b"Allowing first-arg of a subcommand is not supported"
BAD_HASH: Final = b"The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
NO_PASSWORD: Final = b"The password you are trying to remove from the user does not exist"
AFTER_ALL: Final = (
    b"Adding a pattern after the * pattern (or the 'all%b' flag) is not valid and does not have any effect. "
    b"Try 'reset%b' to start with an empty list of %b"
)
NO_SELECTORS: Final = b"Selectors are not supported: a user has one set of rights"
LONG_PATTERN: Final = b"A pattern has at most 512 bytes"
MANY_GLOBS: Final = b"A user has at most 100 patterns that are more than a beginning and a star"
TOO_LONG: Final = b"All rules of a user together have at most 16384 bytes"
BAD_BYTES: Final = b"Patterns have no spaces or null characters"

BAD_NAME: Final = b"ERR Usernames can't contain spaces or null characters"
LONG_NAME: Final = b"ERR Usernames have 1 to 256 bytes"

HEX: Final = b"0123456789abcdef"
#: What Redis has and means nothing here.
IGNORED: Final = frozenset({b"sanitize-payload", b"skip-sanitize-payload", b"clearselectors"})


def name_fault(name: bytes) -> bytes:
    """Why this can be no name of a user: the text of an error, or nothing."""
    if b"\0" in name or any(byte in b" \t\r\n\v\f" for byte in name):
        return BAD_NAME
    return b"" if 0 < len(name) <= NAME_MOST else LONG_NAME


def read(name: bytes, words: list[bytes], catalog: Catalog, *, lenient: bool = False) -> User | None:
    """The user that these rules make; None if one of them makes no sense.

    ``lenient``: another node has said them, which may know further commands. It may allow more patterns, too: those
    beyond are left out, which takes rights away. A default user that nobody could read would be one that may do all.
    """
    user = User(name)
    for word in words:
        wrong = apply(user, word, catalog, lenient=lenient)
        if wrong and not (lenient and wrong == MANY_GLOBS):
            return None
    return user


def fault(user: User, words: list[bytes], catalog: Catalog) -> bytes:
    """Apply rules to ``user``; the text of an error that names the first one that cannot be, or nothing."""
    for word in words:
        wrong = apply(user, word, catalog)
        if wrong:
            return b"ERR Error in ACL SETUSER modifier '%b': %b" % (harmless(word), wrong)
    if len(user.describe()) > RULES_MOST:
        return b"ERR " + TOO_LONG
    return b""


def harmless(word: bytes) -> bytes:
    """A rule as an error may show it: no password, no line end, not long."""
    if word[:1] in {b">", b"<"}:
        return word[:1] + b"(redacted)"
    return word[:128].replace(b"\r", b" ").replace(b"\n", b" ")


def apply(user: User, word: bytes, catalog: Catalog, *, lenient: bool = False) -> bytes:
    """Apply one rule; why it cannot be, or nothing."""
    first = word[:1]
    if first in {b"+", b"-"}:
        return command(user, word, catalog, lenient=lenient)
    if first in {b"~", b"%"}:
        return queue(user, word)
    if first == b"&":
        return channel(user, word[1:])
    if first in {b">", b"<", b"#", b"!"}:
        return password(user, first, word[1:])
    if first == b"(":
        return NO_SELECTORS
    return flag(user, word.lower(), catalog)


def flag(user: User, word: bytes, catalog: Catalog) -> bytes:
    """Apply a rule that is one word."""
    if word in {b"on", b"off"}:
        user.enabled = word == b"on"
    elif word in {b"nopass", b"resetpass"}:
        user.no_password = word == b"nopass"
        user.passwords = []
    elif word in {b"allkeys", b"resetkeys"}:
        user.all_queues = word == b"allkeys"
        user.patterns = []
    elif word in {b"allchannels", b"resetchannels"}:
        user.all_channels = word == b"allchannels"
        user.channels = []
    elif word in {b"allcommands", b"nocommands"}:
        start(user, is_all=word == b"allcommands", catalog=catalog)
    elif word == b"reset":
        for one in (b"off", b"resetpass", b"resetkeys", b"resetchannels", b"nocommands"):
            flag(user, one, catalog)
    elif word not in IGNORED:
        return SYNTAX
    return b""


def password(user: User, sign: bytes, text: bytes) -> bytes:
    """Apply a rule about a password: itself behind > and <, its SHA-256 behind # and !."""
    if sign in {b">", b"<"}:
        text = digest_of(text)
    elif len(text) != 64 or text.strip(HEX):
        return BAD_HASH
    if sign in {b">", b"#"}:
        if text not in user.passwords:
            user.passwords = [*user.passwords, text]
        user.no_password = False
    elif text in user.passwords:
        user.passwords = [one for one in user.passwords if one != text]
    else:
        return NO_PASSWORD
    return b""


def too_many(text: bytes, others: list[bytes]) -> bool:
    """Whether a pattern is one too many that each name must be compared with."""
    return is_glob(text) and sum([is_glob(one) for one in others]) >= GLOBS_MOST


def pattern_fault(text: bytes) -> bytes:
    """Why this can be no pattern, or nothing."""
    if b"\0" in text or any(byte in b" \t\r\n\v\f" for byte in text):
        return BAD_BYTES
    return LONG_PATTERN if len(text) > PATTERN_MOST else b""


def queue(user: User, word: bytes) -> bytes:
    """Apply a rule about queues."""
    kind, tilde, text = word.partition(b"~")
    access = KINDS_OF_PATTERN.get(kind.upper(), 0)
    if not tilde or not access:
        return SYNTAX
    if user.all_queues and (text != b"*" or access != BOTH):
        return AFTER_ALL % (b"keys", b"keys", b"patterns")
    wrong = pattern_fault(text)
    if wrong:
        return wrong
    if text == b"*" and access == BOTH:
        return flag_queues(user)
    known = [one for one in user.patterns if one.text == text]
    if known:
        access |= known[0].access
    elif too_many(text, [one.text for one in user.patterns]):
        return MANY_GLOBS
    made = Pattern(text, access)
    user.patterns = [made if one.text == text else one for one in user.patterns] if known else [*user.patterns, made]
    return b""


def flag_queues(user: User) -> bytes:
    """All queues, both ways."""
    user.all_queues = True
    user.patterns = []
    return b""


def channel(user: User, text: bytes) -> bytes:
    """Apply a rule about channels."""
    if user.all_channels and text != b"*":
        return AFTER_ALL % (b"channels", b"channels", b"channels")
    wrong = pattern_fault(text)
    if wrong:
        return wrong
    if text == b"*":
        user.all_channels = True
        user.channels = []
    elif text not in user.channels:
        if too_many(text, user.channels):
            return MANY_GLOBS
        user.channels = [*user.channels, text]
    return b""


def start(user: User, *, is_all: bool, catalog: Catalog) -> None:
    """All commands, or none; later rules count from there."""
    user.base = is_all
    user.rules = []
    user.allowed = catalog.resolve([], base=is_all)


def command(user: User, word: bytes, catalog: Catalog, *, lenient: bool) -> bytes:
    """Apply a rule about commands."""
    what = word[1:].lower()
    if what == b"@all":
        start(user, is_all=word.startswith(b"+"), catalog=catalog)
        return b""
    units = catalog.expand(what)
    if units is None:
        if what.count(b"|") > 1 and not what.startswith(b"@"):
            return FIRST_ARGUMENT
        if not lenient or not what or pattern_fault(what):
            return UNKNOWN
    rule = word[:1] + what
    # A rule about the same, or about a part of it, has no effect any more.
    kept = [one for one in user.rules if one[1:] != what and not one[1:].startswith(what + b"|")]
    user.rules = effective([*kept, rule], base=user.base, catalog=catalog)
    user.allowed = catalog.resolve(user.rules, base=user.base)
    return b""


def effective(said: list[bytes], *, base: bool, catalog: Catalog) -> list[bytes]:
    """These rules without those that say nothing, which they may since one before them is gone.

    What is said of a category stays behind others: later versions may have more in it.
    """
    kept: list[bytes] = []
    allowed = set(catalog.units) if base else set()
    for rule in said:
        units = catalog.expand(rule[1:])
        is_more = rule.startswith(b"+")
        changes = set(units or ()) - allowed if is_more else allowed.intersection(units or ())
        if changes or units is None or (rule[1:2] == b"@" and kept):
            kept.append(rule)
        allowed ^= changes
    return kept
