"""A user: how it logs in, which commands it may run, and on which queues and channels.

The words that say so, and how they are read, are those of Redis: see `auth.rules`. Here is what they come to.
"""

import hmac
from hashlib import sha256
from typing import Final

from disque.core.model.claims import EITHER, READ, WRITE
from disque.core.model.patterns import BOTH, GLOBS_MOST, NAME_COMPARED, Index, Pattern, is_glob

#: The user of clients that have named none.
DEFAULT: Final = b"default"
#: What stands before the ~ of a pattern of queues.
KINDS_OF_PATTERN: Final = {b"": BOTH, b"%R": READ, b"%W": WRITE, b"%RW": BOTH, b"%WR": BOTH}

#: Bytes of a name, of one pattern, and of all that is said of a user.
NAME_MOST: Final = 256
PATTERN_MOST: Final = 512
RULES_MOST: Final = 16_384
#: Answers about queues that are remembered.
MEMO_MOST: Final = 1000
#: So many of them take as long as looking at a queue.
GLOBS_A_LOOK: Final = 2


def digest_of(password: bytes) -> bytes:
    """A password as it is kept: SHA-256, in hexadecimal digits."""
    return sha256(password).hexdigest().encode()


class User:
    """One user.

    ``passwords`` are SHA-256. ``base`` says whether all commands are allowed to begin with, ``rules`` what is added and
    taken away after that, in order: ``+get``, ``-@admin``, ``+config|get``. ``allowed`` are the commands and
    subcommands that this comes to; None: all. ``is_fixed``: the configuration of this node has it.
    """

    __slots__ = (
        "_memo",
        "_of_channels",
        "_of_queues",
        "all_channels",
        "all_queues",
        "allowed",
        "base",
        "channels",
        "enabled",
        "is_fixed",
        "name",
        "no_password",
        "passwords",
        "patterns",
        "rules",
    )

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.enabled = False
        self.no_password = False
        self.passwords: list[bytes] = []
        self.all_queues = False
        self.patterns: list[Pattern] = []
        self.all_channels = False
        self.channels: list[bytes] = []
        self.base = False
        self.rules: list[bytes] = []
        self.allowed: frozenset[bytes] | None = frozenset()
        self.is_fixed = False
        self._memo: dict[tuple[bytes, int], bool] = {}
        #: Made when they are asked for: the rules are not changed any more by then.
        self._of_queues: Index | None = None
        self._of_channels: Index | None = None

    def is_limited(self) -> bool:
        """Whether there is anything that it may not do."""
        return self.allowed is not None or not self.all_queues or not self.all_channels

    def is_open(self) -> bool:
        """Whether it needs no password: clients that name no user are this one at once, if it is the default user."""
        return self.enabled and self.no_password

    def may_log_in(self) -> bool:
        """Whether anybody can be this user."""
        return self.enabled and (self.no_password or bool(self.passwords))

    def fits(self, password: bytes) -> bool:
        """Whether this password is one of its own. How long that takes does not tell which, or how much of it fits."""
        given = digest_of(password)
        found = False
        for known in self.passwords:
            found = hmac.compare_digest(given, known) or found
        return self.enabled and (found or self.no_password)

    def may_run(self, unit: bytes) -> bool:
        """Whether it may run a command, or a subcommand: ``config|get``."""
        return self.allowed is None or unit in self.allowed

    def may(self, queue: bytes, access: int) -> bool:
        """Whether it may do that with this queue."""
        if self.all_queues:
            return True
        key = (queue, access)
        found = self._memo.get(key)
        if found is None:
            found = self._queue_index().allows(queue, BOTH if access == EITHER else access)
            if len(queue) <= NAME_COMPARED:
                if len(self._memo) >= MEMO_MOST:
                    self._memo.clear()
                self._memo[key] = found
        return found

    def looks(self) -> int:
        """As how many queues one counts that is looked at for this user."""
        return 1 + self.globs() // GLOBS_A_LOOK

    def globs(self) -> int:
        """With how many patterns each name of a queue must be compared."""
        return 0 if self.all_queues else len(self._queue_index().globs)

    def channel_globs(self) -> int:
        """With how many patterns each name of a channel must be compared."""
        return 0 if self.all_channels else len(self._channel_index().globs)

    def may_all(self, beginning: bytes, access: int) -> bool:
        """Whether it may do that with all queues whose names begin so, now and later."""
        return self.all_queues or any(one.access & access and one.covers(beginning) for one in self.patterns)

    def sees_all(self, beginning: bytes) -> bool:
        """Whether it may know all queues whose names begin so."""
        return self.may_all(beginning, BOTH)

    def sees(self, queue: bytes) -> bool:
        """Whether it may know that there is this queue."""
        return self.may(queue, EITHER)

    def reads_all(self) -> bool:
        """Whether it may look at every queue."""
        return self.all_queues or self.may_all(b"", READ)

    def may_channel(self, channel: bytes) -> bool:
        """Whether it may listen to this channel, and publish there."""
        if self.all_channels:
            return True
        return len(channel) <= NAME_COMPARED and self._channel_index().allows(channel, READ)

    def may_pattern(self, pattern: bytes) -> bool:
        """Whether it may listen to all channels of this pattern: as in Redis, if it is one of its own, as it is."""
        return self.all_channels or pattern in self.channels

    def words_of_queues(self) -> list[bytes]:
        """The rules about queues."""
        return [b"~*"] if self.all_queues else [one.word() for one in self.patterns]

    def words_of_channels(self) -> list[bytes]:
        """The rules about channels."""
        return [b"&*"] if self.all_channels else [b"&" + one for one in self.channels]

    def words_of_commands(self) -> list[bytes]:
        """The rules about commands."""
        return [b"+@all" if self.base else b"-@all", *self.rules]

    def describe(self) -> bytes:
        """All its rules on one line, as ACL LIST shows them. Read again, they make the same user."""
        words = [b"on" if self.enabled else b"off"]
        if self.no_password:
            words.append(b"nopass")
        words += [b"#" + one for one in self.passwords]
        words += self.words_of_queues()
        if not self.all_channels:
            words.append(b"resetchannels")
        words += self.words_of_channels()
        words += self.words_of_commands()
        return b" ".join(words)

    def _queue_index(self) -> Index:
        index = self._of_queues
        if index is None:
            index = self._of_queues = Index(self.patterns)
        return index

    def _channel_index(self) -> Index:
        index = self._of_channels
        if index is None:
            index = self._of_channels = Index([Pattern(one, READ) for one in self.channels])
        return index


class Users:
    """The users of a node by name, and what is remembered of logins that failed.

    ``late`` are clients whose AUTH or HELLO waits, with their words and when it goes on; ``waited`` those whose wait is
    over, for the moment in which it goes on. ``wrong`` has for each address when the minute began in which it gave
    wrong passwords, and how many.
    """

    __slots__ = ("_said", "by_name", "default", "fixed", "late", "required", "waited", "wrong")

    def __init__(self) -> None:
        #: The default user as it was set, and as it counts: with the password of `requirepass`, if there is one.
        self._said = open_default()
        self.default = self._said
        self.required = b""
        self.by_name: dict[bytes, User] = {DEFAULT: self.default}
        #: The users of the configuration.
        self.fixed: frozenset[bytes] = frozenset()
        self.late: dict[int, tuple[list[bytes], int]] = {}
        self.waited: set[int] = set()
        self.wrong: dict[bytes, tuple[int, int]] = {}

    def put(self, user: User) -> User:
        """A user is set. Returns it as it counts."""
        if user.name == DEFAULT:
            self._said = user
            return self._take_default()
        self.by_name[user.name] = user
        return user

    def require(self, password: bytes) -> User:
        """The default user has this password and no other; b"": those that it was given. Returns it as it counts."""
        self.required = digest_of(password) if password else b""
        return self._take_default()

    def _take_default(self) -> User:
        user = self._said
        if self.required:
            user = copy_of(user)
            user.no_password = False
            user.passwords = [self.required]
        self.default = self.by_name[DEFAULT] = user
        return user


def copy_of(user: User) -> User:
    """Another user of the same name and rights."""
    copy = User(user.name)
    copy.enabled = user.enabled
    copy.no_password = user.no_password
    copy.passwords = user.passwords
    copy.all_queues = user.all_queues
    copy.patterns = user.patterns
    copy.all_channels = user.all_channels
    copy.channels = user.channels
    copy.base = user.base
    copy.rules = user.rules
    copy.allowed = user.allowed
    copy.is_fixed = user.is_fixed
    return copy


def of_queues(name: bytes, text: bytes) -> User | None:
    """A user with these rights to queues (`User.words_of_queues`, joined), and no others; None for nonsense."""
    user = User(name)
    if len(text) > RULES_MOST:
        return None
    for word in text.split(b" ") if text else []:
        kind, tilde, pattern = word.partition(b"~")
        access = KINDS_OF_PATTERN.get(kind, 0)
        if not tilde or not access or len(pattern) > PATTERN_MOST:
            return None
        if pattern == b"*" and access == BOTH:
            user.all_queues = True
        else:
            user.patterns.append(Pattern(pattern, access))
    return None if sum([is_glob(one.text) for one in user.patterns]) > GLOBS_MOST else user


def open_default() -> User:
    """The default user while nobody has said anything of it: all rights, no password."""
    user = User(DEFAULT)
    user.enabled = user.no_password = user.all_queues = user.all_channels = user.base = True
    user.allowed = None
    return user
