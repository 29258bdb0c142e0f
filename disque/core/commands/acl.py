"""ACL: users, and what they may. Grammar and replies are those of Redis 7.

ACL LIST is done in slices where there is much to show, as walks of QSCAN are (see `scan`).
"""

from typing import TYPE_CHECKING, Final

from cluster.capabilities import USERS
from disque.core import entries
from disque.core.auth import access, rules, users
from disque.core.base import errors, resp
from disque.core.base.numbers import parse_int
from disque.core.commands import scan
from disque.core.commands.helped import helped
from disque.core.jobs import terms
from disque.core.model.catalog import CATEGORIES
from disque.core.model.command import ADMIN, HELP, LOADING, READONLY, Command, Handler
from disque.core.model.registry import USER
from disque.core.model.session import Session
from disque.core.model.user import DEFAULT, User, open_default

if TYPE_CHECKING:
    from disque.core.node import Node

BITS_MOST: Final = 4096
BAD_BITS: Final = (
    b"ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096"
)
#: Entries that ACL LOG shows where nothing is said.
LOG_SHOWN: Final = 10
WORDS_MOST: Final = 1024
#: Bytes of ACL LIST that are made in the time in which a walk looks at something.
BYTES_A_LOOK: Final = 4


def acl(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """ACL subcommand [word ...]."""
    if helped(node, session, args):
        return
    entry = SUBCOMMANDS.get(args[1].upper())
    name = errors.one_line(args[1][:64])
    if entry is None:
        session.out.append(resp.error(b"ERR unknown subcommand '%b'. Try ACL HELP." % name))
    elif not entry[0] <= len(args) <= entry[1]:
        session.out.append(resp.error(errors.wrong_arity(b"acl|" + name.lower())))
    else:
        entry[2](node, session, args, now_ms)


def set_user(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """ACL SETUSER name [rule ...]: make or change a user, at all nodes."""
    if entries.must_wait(node, session, args, now_ms):
        return
    name = args[2]
    known = node.users.by_name.get(name)
    user = said(node, name)
    wrong = rules.name_fault(name) or terms.lacking(node, b"ACL", USERS) or fixed(node, name, args[3:])
    wrong = wrong or rules.fault(user, args[3:], node.catalog)
    if not wrong and known is not None and users.is_last(node, [known], user):
        wrong = errors.LAST_USER
    if not wrong and node.users.required and name == DEFAULT:
        user.passwords, user.no_password = said(node, name).passwords, said(node, name).no_password
    wrong = wrong or entries.set_value(node, (USER, name, b""), user.describe(), now_ms)
    if wrong:
        session.out.append(resp.error(wrong))
        return
    users.change(node, name, user)
    session.out.append(resp.OK)


def said(node: "Node", name: bytes) -> User:
    """The user as ACL has set it, for a change; one without rights if there is none."""
    entry = node.registry.get((USER, name, b""))
    user = None
    if entry is not None and not entry.deleted:
        user = users.read(node, name, entry.value)
    elif name == DEFAULT:
        user = open_default()
    return user or User(name)


def fixed(node: "Node", name: bytes, words: list[bytes]) -> bytes:
    """The error for what the configuration of this node has said, or nothing."""
    if name in node.users.fixed:
        return errors.FIXED_USER % errors.one_line(name)
    about_password = any(word[:1] in {b">", b"<", b"#", b"!"} or word.lower() in OF_PASSWORDS for word in words)
    if node.users.required and name == DEFAULT and about_password:
        return errors.PASSWORD_FIXED
    return b""


OF_PASSWORDS: Final = frozenset({b"nopass", b"resetpass", b"reset"})


def del_user(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """ACL DELUSER name [name ...]: delete users at all nodes, and end their connections. The reply is how many."""
    if entries.must_wait(node, session, args, now_ms):
        return
    names = list(dict.fromkeys(args[2:]))
    gone = [node.users.by_name[name] for name in names if name in node.users.by_name]
    wrong = terms.lacking(node, b"ACL", USERS)
    if DEFAULT in names:
        wrong = b"ERR The 'default' user cannot be removed"
    for name in names:
        wrong = wrong or fixed(node, name, [])
    if not wrong and gone and users.is_last(node, gone, None):
        wrong = errors.LAST_USER
    if wrong:
        session.out.append(resp.error(wrong))
        return
    session.out.append(resp.integer(len(gone)))
    for user in gone:
        entries.set_value(node, (USER, user.name, b""), b"", now_ms, deleted=True)
        users.change(node, user.name, None)


def get_user(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """ACL GETUSER name: a map of what there is to know of a user; nothing if there is none."""
    del now_ms
    user = node.users.by_name.get(args[2])
    protocol = session.protocol
    if user is None:
        session.out.append(resp.null_bulk(protocol))
        return
    flags = [b"on" if user.enabled else b"off"] + ([b"nopass"] if user.no_password else [])
    pairs = [
        (b"flags", resp.unordered([resp.bulk(flag) for flag in flags], protocol)),
        (b"passwords", resp.bulks(user.passwords)),
        (b"commands", resp.bulk(b" ".join(user.words_of_commands()))),
        (b"keys", resp.bulk(b" ".join(user.words_of_queues()))),
        (b"channels", resp.bulk(b" ".join(user.words_of_channels()))),
        (b"selectors", resp.EMPTY_ARRAY),
    ]
    session.out.append(resp.mapping([part for name, value in pairs for part in (resp.bulk(name), value)], protocol))


class Listing(scan.Listing):
    """An ACL LIST under way, with the names of the users that are left, the next one last."""

    __slots__ = ("_names",)

    def __init__(self, session: Session, names: list[bytes]) -> None:
        super().__init__(session)
        self._names = names

    def look(self, node: "Node", now_ms: int) -> int:
        """As in `Walk`. A line counts by its bytes."""
        del now_ms
        name = self._names.pop()
        self.cursor = len(self._names)
        user = node.users.by_name.get(name)
        if user is None:
            return 1
        line = b"user %b %b" % (name, user.describe())
        self.take([resp.bulk(line)])
        return 1 + len(line) // BYTES_A_LOOK


def list_(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """ACL LIST: a line for each user, as one of the configuration."""
    del args
    scan.begin(node, Listing(session, sorted(node.users.by_name, reverse=True)), now_ms)


def list_names(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """ACL USERS: their names."""
    del args, now_ms
    session.out.append(resp.bulks(sorted(node.users.by_name)))


def who_am_i(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """ACL WHOAMI: the user of this connection."""
    del node, args, now_ms
    session.out.append(resp.bulk(session.user.name))


def cat(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """ACL CAT [category]: all categories, or the commands of one."""
    del now_ms
    if len(args) == 2:
        session.out.append(resp.bulks(list(CATEGORIES)))
        return
    units = node.catalog.by_category.get(args[2].lower())
    if units is None:
        session.out.append(resp.error(b"ERR Unknown category '%b'" % errors.one_line(args[2][:128])))
    else:
        session.out.append(resp.bulks([unit for unit in units if node.catalog.is_shown(unit)]))


def gen_pass(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """ACL GENPASS [bits]: a password that nobody can guess, in hexadecimal digits."""
    del now_ms
    bits = parse_int(args[2]) if len(args) == 3 else 256
    if bits is None:
        session.out.append(resp.error(errors.NOT_AN_INTEGER))
    elif not 0 < bits <= BITS_MOST:
        session.out.append(resp.error(BAD_BITS))
    else:
        digits = (bits + 3) // 4
        session.out.append(resp.bulk(node.host.entropy((digits + 1) // 2).hex().encode()[:digits]))


def dry_run(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """ACL DRYRUN name command [word ...]: whether a user might run that, which is not done."""
    del now_ms
    user = node.users.by_name.get(args[2])
    words = args[3:]
    row = node.lookup.get(words[0].lower())
    if user is None:
        session.out.append(resp.error(b"ERR User '%b' not found" % errors.one_line(args[2][:128])))
    elif row is None:
        session.out.append(resp.error(b"ERR Command '%b' not found" % errors.one_line(words[0][:128])))
    elif not row.accepts(len(words)):
        session.out.append(resp.error(errors.wrong_arity(row.name)))
    else:
        claims = row.claims(words)
        denial = access.denied(node, user, row, words, claims)
        for job_id in claims.ids:
            if denial is None and access.judge(node, user, job_id, claims.of_ids) == access.MAY_NOT:
                denial = access.Denial(access.OF_QUEUE, job_id)
        session.out.append(resp.OK if denial is None else resp.bulk(DRY[denial.reason] % denial.what))


#: What DRYRUN answers.
DRY: Final = {
    access.OF_COMMAND: b"This user has no permissions to run the '%b' command",
    access.OF_QUEUE: b"This user has no permissions to access the '%b' key",
    access.OF_CHANNEL: b"This user has no permissions to access the '%b' channel",
}


def log(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """ACL LOG [count | RESET]: what users tried and might not, the newest first."""
    if len(args) == 3 and args[2].upper() == b"RESET":
        node.acl_log.entries.clear()
        session.out.append(resp.OK)
        return
    count = parse_int(args[2]) if len(args) == 3 else LOG_SHOWN
    if count is None:
        session.out.append(resp.error(errors.NOT_AN_INTEGER))
        return
    protocol = session.protocol
    rows = []
    for entry in node.acl_log.entries[: max(0, count)]:
        age = b"%d.%03d" % divmod(max(0, now_ms - entry.first_ms), 1000)
        pairs = [
            (b"count", resp.integer(entry.count)),
            (b"reason", resp.bulk(entry.reason)),
            (b"context", resp.bulk(b"toplevel")),
            (b"object", resp.bulk(entry.object)),
            (b"username", resp.bulk(entry.user)),
            (b"age-seconds", b",%b\r\n" % age if protocol == 3 else resp.bulk(age)),
            (b"client-info", resp.bulk(entry.client)),
        ]
        rows.append(resp.mapping([part for name, value in pairs for part in (resp.bulk(name), value)], protocol))
    session.out.append(resp.array(rows))


def file(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """ACL SAVE, ACL LOAD: there is no file of users."""
    del node, args, now_ms
    session.out.append(resp.error(errors.NO_ACL_FILE))


#: Subcommand: the least and the largest number of words, the function.
SUBCOMMANDS: Final[dict[bytes, tuple[int, int, Handler]]] = {
    b"SETUSER": (3, WORDS_MOST, set_user),
    b"DELUSER": (3, WORDS_MOST, del_user),
    b"GETUSER": (3, 3, get_user),
    b"LIST": (2, 2, list_),
    b"USERS": (2, 2, list_names),
    b"WHOAMI": (2, 2, who_am_i),
    b"CAT": (2, 3, cat),
    b"GENPASS": (2, 3, gen_pass),
    b"DRYRUN": (4, WORDS_MOST, dry_run),
    b"LOG": (2, 3, log),
    b"SAVE": (2, 2, file),
    b"LOAD": (2, 2, file),
}

COMMANDS: Final = (
    Command(
        "acl",
        -2,
        READONLY | ADMIN | LOADING,
        acl,
        "server",
        "subcommand [word ...]",
        "Users, and what they may.",
        (
            ("SETUSER", "name [rule ...]", "Make a user, or change one, at all nodes."),
            ("DELUSER", "name [name ...]", "Delete users and end their connections."),
            ("GETUSER", "name", "What a user may."),
            ("LIST", "", "All users, a line each."),
            ("USERS", "", "Their names."),
            ("WHOAMI", "", "The user of this connection."),
            ("CAT", "[category]", "All categories, or the commands of one."),
            ("GENPASS", "[bits]", "A password that nobody can guess."),
            ("DRYRUN", "name command [word ...]", "Whether a user might run that."),
            ("LOG", "[count | RESET]", "What was refused lately."),
            ("SAVE", "", "An error: there is no file of users."),
            ("LOAD", "", "An error: there is no file of users."),
            HELP,
        ),
        tame=frozenset({"WHOAMI", "CAT", "GENPASS", "HELP"}),
    ),
)
