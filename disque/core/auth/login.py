"""How clients log in: AUTH, HELLO, and the certificate that they have shown.

After some wrong passwords from one address within a minute, each further answer to a login from there comes a second
late, right or wrong. Others do not wait. The memory for addresses is bounded: beyond that the one that has been known
for longest is forgotten.
"""

from typing import TYPE_CHECKING, Final

from disque.core.auth import access
from disque.core.auth.users import look_again
from disque.core.host import FAILED_AUTH, GUESSING
from disque.core.model.session import NOT_WAITING, WAIT_LOGIN, Session
from disque.core.model.user import DEFAULT, User

if TYPE_CHECKING:
    from disque.core.node import Node

#: So many wrong passwords from one address within a minute are too many; then each answer comes so much later.
WRONG_MOST: Final = 10
WINDOW_MS: Final = 60_000
LATE_MS: Final = 1000
#: What the password of a user is compared with that does not exist: that takes as long.
NOBODY: Final = User(b"")
#: Addresses that are remembered.
ADDRESSES_MOST: Final = 1024


def must_wait(node: "Node", session: Session, args: list[bytes], now_ms: int) -> bool:
    """Whether this login is to be looked at later. It goes on with `go_on`."""
    users = node.users
    if session.id in users.waited:
        users.waited.discard(session.id)
        return False
    since_ms, count = users.wrong.get(host_of(session), (0, 0))
    if count < WRONG_MOST or now_ms - since_ms >= WINDOW_MS:
        return False
    session.waiting = WAIT_LOGIN
    users.late[session.id] = (args, now_ms + LATE_MS)
    node.timers.arm(session, now_ms + LATE_MS)
    return True


def go_on(node: "Node", session: Session) -> list[bytes]:
    """The wait is over: the words of the AUTH or HELLO, which is to run now."""
    session.waiting = NOT_WAITING
    node.users.waited.add(session.id)
    return node.users.late.pop(session.id)[0]


def is_unsure(node: "Node", session: Session) -> bool:
    """Whether the journal, which is being read, may yet say that this client needs a password."""
    return node.loading and session.user is node.users.default and not is_known(node, DEFAULT)


def is_known(node: "Node", name: bytes) -> bool:
    """Whether it is known how this user logs in: while the journal is read, only of those of the configuration."""
    users = node.users
    return not node.loading or name in users.fixed or (name == DEFAULT and bool(users.required))


def host_of(session: Session) -> bytes:
    """The address of a client without its port."""
    return session.address.rpartition(b":")[0] or session.address


def log_in(node: "Node", session: Session, name: bytes, password: bytes, by: bytes, now_ms: int) -> bool:
    """Make this client one of that user, if the password is right. ``by`` is the command that asks for it."""
    user = node.users.by_name.get(name)
    if (user or NOBODY).fits(password) and user is not None:
        session.named = True
        session.log_in(user, passed=True)
        return True
    denied(node, session, name, by, now_ms)
    return False


def denied(node: "Node", session: Session, name: bytes, by: bytes, now_ms: int) -> None:
    """Somebody has given a wrong user or password: count it, and let the logs say so."""
    node.stats.auths_denied += 1
    access.log(node, session, access.OF_LOGIN, by, name, now_ms)
    wrong = node.users.wrong
    host = host_of(session)
    since_ms, count = wrong.get(host, (now_ms, 0))
    if now_ms - since_ms >= WINDOW_MS:
        since_ms, count = now_ms, 0
    if host not in wrong and len(wrong) >= ADDRESSES_MOST:
        del wrong[next(iter(wrong))]
    wrong[host] = (since_ms, count + 1)
    node.host.suspect(session, FAILED_AUTH)
    if count + 1 == WRONG_MOST:
        node.host.suspect(session, GUESSING)


def by_certificate(node: "Node", session: Session, name: bytes) -> None:
    """A client has shown a certificate that names a user: it is logged in, if there is such a user.

    Else it is what it would be without one, until there is: a node that starts may not know its users yet.
    """
    session.certificate = name
    start_over(node, session)
    if session.is_expected() and not node.loading:
        node.stats.certificates_denied += 1


def start_over(node: "Node", session: Session) -> None:
    """The client is what one is that connects now."""
    default = node.users.default
    session.named = False
    session.log_in(default, passed=default.is_open())
    look_again(node, session)
