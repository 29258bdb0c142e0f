"""Users as all nodes agree on them: each is one entry of the registry, whose value is the line that ACL LIST shows.

The configuration of a node can have users of its own (`user` lines). They count at that node only, whatever the
registry says of users of the same name, and ACL cannot change them there. `requirepass` is the password of the default
user at its node; what the registry says of that user's passwords does not count there, but its rights do.

Clients of a user that changes have the new rights at once. Those of one that is deleted are disconnected, as are those
that listen to channels that are not theirs any more, or to all commands (MONITOR) without the right to it. Who waits
for jobs that are not his any more waits no longer, nor who waits for ends after his rights to queues have changed.
"""

from typing import TYPE_CHECKING, Final

from disque.core.auth import rules
from disque.core.base import errors, resp
from disque.core.config.kinds import as_bytes
from disque.core.jobs import deliver
from disque.core.model.catalog import Catalog
from disque.core.model.claims import READ
from disque.core.model.registry import USER, Entry
from disque.core.model.session import WAIT_ENDS, WAIT_JOBS, Session
from disque.core.model.user import DEFAULT, RULES_MOST, User, open_default
from disque.core.replication import waits

if TYPE_CHECKING:
    from disque.core.node import Node

#: What joins the words of a `user` line in the configuration.
JOINT: Final = "\0"


# -- entries of the registry -------------------------------------------------------------------------------------------


#: Says nothing of which commands there are: another version may have others.
NO_COMMANDS: Final = Catalog(())


def is_user(entry: Entry) -> bool:
    """Whether an entry can be a user. The default user cannot be deleted: that would let everybody in."""
    _, name, field = entry.key
    if field or rules.name_fault(name) or len(entry.value) > RULES_MOST:
        return False
    if entry.deleted:
        return name != DEFAULT
    return rules.read(name, entry.value.split(b" "), NO_COMMANDS, lenient=True) is not None


def read(node: "Node", name: bytes, value: bytes) -> User | None:
    """The user that an entry says; None for nonsense."""
    return rules.read(name, value.split(b" "), node.catalog, lenient=True)


def is_ready(node: "Node", entry: Entry) -> bool:
    """A user can take effect at any time."""
    del node, entry
    return True


def has_changed(node: "Node", entry: Entry, now_ms: int) -> None:
    """Another node has set or deleted a user."""
    del now_ms
    name = entry.key[1]
    if name not in node.users.fixed:
        user = None if entry.deleted else read(node, name, entry.value)
        change(node, name, user)


# -- what changes ------------------------------------------------------------------------------------------------------


def change(node: "Node", name: bytes, user: User | None) -> None:
    """This is the user of that name from now on; None: there is none."""
    if set_one(node, name, user):
        appeared(node, {name})


def set_one(node: "Node", name: bytes, user: User | None) -> bool:
    """The same, but for clients whose certificates name the user; whether it may be that user's first chance."""
    before = node.users.by_name.get(name)
    if user is None:
        node.users.by_name.pop(name, None)
    else:
        user = node.users.put(user)
    if before is user:
        return False
    for session in list(node.sessions.values()) if before is not None else ():
        if session.user is not before:
            continue
        if user is None:
            session.log_in(node.users.default, passed=False)
            node.host.kill(session)
        else:
            session.log_in(user, passed=session.passed)
            review(node, session, before)
    return user is not None


def appeared(node: "Node", names: set[bytes]) -> None:
    """There are these users: clients whose certificates name them, and who have not said who they are, are they."""
    for session in list(node.sessions.values()):
        if session.certificate in names and session.is_expected():
            before = session.user
            look_again(node, session)
            if session.user is not before:
                review(node, session, before)


def look_again(node: "Node", session: Session) -> None:
    """See whether there is the user by now that the certificate of this client names."""
    user = node.users.by_name.get(session.certificate)
    if user is not None and user.enabled:
        session.log_in(user, passed=True)


def review(node: "Node", session: Session, before: User) -> None:
    """The rights of a client have changed: what it does right now may not be allowed any more."""
    user = session.user
    if session.monitoring and not (user.may_run(b"monitor") and user.reads_all()):
        node.host.kill(session)
    listens = session.subscriptions
    if listens is not None and not (
        all(may_listen(user, name) for name in listens.channels)
        and all(may_listen_to_all(user, name) for name in listens.patterns)
    ):
        node.host.kill(session)
    if session.waiting == WAIT_JOBS and not user.may_run(b"getjob"):
        deliver.unblock(node, session, resp.error(errors.NO_COMMAND % b"getjob"))
    elif session.waiting == WAIT_JOBS and not all(user.may(queue.name, READ) for queue in session.wait_queues):
        deliver.unblock(node, session, resp.error(errors.NO_QUEUE))
    elif session.waiting == WAIT_ENDS and not user.may_run(b"waitjob"):
        waits.refuse(node, session, resp.error(errors.NO_COMMAND % b"waitjob"))
    elif session.waiting == WAIT_ENDS and not (user.all_queues or user.words_of_queues() == before.words_of_queues()):
        waits.refuse(node, session, resp.error(errors.NO_QUEUE))  # it may be allowed still: it can ask again


def reload(node: "Node") -> None:
    """Take the users of the configuration and those of the registry: at the start, and when either was read anew.

    Clients that came before and had to prove nothing are what others like them are now.
    """
    users = node.users
    found = {DEFAULT: open_default()}
    for entry in node.registry.entries():
        kind, name, _ = entry.key
        user = read(node, name, entry.value) if kind == USER and not entry.deleted and is_user(entry) else None
        if user is not None:
            found[name] = user
    fixed = [of_line(node, line) for line in node.config.words("user")]
    found.update({user.name: user for user in fixed})
    users.fixed = frozenset([user.name for user in fixed])
    was_open = users.default.is_open()
    for name in [name for name in users.by_name if name not in found]:
        set_one(node, name, None)
    appeared(node, {name for name, user in found.items() if set_one(node, name, user)})
    if was_open and not users.default.is_open():
        for session in node.sessions.values():
            if session.user is users.default:
                session.log_in(users.default, passed=False)


def of_line(node: "Node", line: str) -> User:
    """The user of a line of the configuration, which was checked when it was read."""
    name, *words = map(as_bytes, line.split(JOINT))
    user = rules.read(name, words, node.catalog)
    assert user is not None
    user.is_fixed = True
    return user


# -- channels that tell of jobs ----------------------------------------------------------------------------------------

#: The beginning of channels on which the server tells what happens to jobs: the event and the queue follow.
JOB: Final = b"job:"
#: What makes a pattern of a name.
SPECIAL: Final = b"*?[\\"


def may_listen(user: User, channel: bytes) -> bool:
    """Whether a user may listen to a channel. One that tells of jobs needs the right to look at their queue, too."""
    if not user.may_channel(channel):
        return False
    if not channel.startswith(JOB) or user.all_queues:
        return True
    return user.may(channel[len(JOB) :].partition(b":")[2], READ)


def may_listen_to_all(user: User, pattern: bytes) -> bool:
    """Whether a user may listen to all channels of a pattern.

    One that could fit channels that tell of jobs must name the event, and then only queues that the user may look at.
    """
    if not user.may_pattern(pattern):
        return False
    if user.all_queues or user.reads_all():
        return True
    plain = 0
    while plain < len(pattern) and pattern[plain] not in SPECIAL:
        plain += 1
    beginning = pattern[:plain]
    if not beginning.startswith(JOB):
        return not JOB.startswith(beginning)
    _, colon, queue = beginning[len(JOB) :].partition(b":")
    if plain == len(pattern):
        return user.may(queue, READ)
    return bool(colon) and user.may_all(queue, READ)


# -- commands ----------------------------------------------------------------------------------------------------------


def is_last(node: "Node", gone: list[User], instead: User | None) -> bool:
    """Whether nobody is left who may do everything, without these users and with ``instead``."""
    names = {user.name for user in gone}
    if instead is not None and is_master(instead):
        return False
    return not any(name not in names and is_master(user) for name, user in node.users.by_name.items())


def is_master(user: User) -> bool:
    """Whether somebody can be this user, and may do everything then."""
    return user.may_log_in() and not user.is_limited()
