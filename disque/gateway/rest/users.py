"""Operations on users of the cluster (ACL). Passwords are taken, and never shown, not even as digests."""

import asyncio
from typing import Any, Final

from disque.client.replies import pairs, text, texts
from disque.gateway.rest import cursors
from disque.gateway.rest.operation import CURSOR, LIMIT, NEXT, Ask, Operation, Result, bad, page, unknown
from disque.gateway.rest.schema import array, boolean, record, string

USER: Final = record(
    {
        "name": string(),
        "enabled": boolean(),
        "needs_password": boolean(),
        "commands": string("as ACL GETUSER has them"),
        "queues": string("patterns of queues"),
        "channels": string("patterns of channels"),
    }
)
RULES: Final = record(
    {"rules": array(string("as ACL SETUSER takes them, such as on, >password, ~mails*, +@consume"), 1000)}, "rules"
)


def shown(name: str, reply: object) -> dict[str, object]:
    """A user as JSON has it."""
    found: dict[str, Any] = {text(word): value for word, value in pairs(reply)}
    flags = texts(found["flags"])
    return {
        "name": name,
        "enabled": "on" in flags,
        "needs_password": "nopass" not in flags,
        "commands": text(found["commands"]),
        "queues": text(found["keys"]),
        "channels": text(found["channels"]),
    }


async def list_users(ask: Ask) -> Result:
    """GET /users."""
    after = cursors.read(ask.query["cursor"]) if ask.query.get("cursor") else ""
    if not isinstance(after, str):
        raise bad("this is no cursor of this list")
    names = [name for name in sorted(texts(await ask.cluster.client.execute_command("ACL", "USERS"))) if name > after]
    asking = ask.cluster.asking
    asked = names[: ask.query["limit"]]
    replies = await asyncio.gather(*[asking.ask([b"ACL", b"GETUSER", name.encode()]) for name in asked])
    rows = [shown(name, reply) for name, reply in zip(asked, replies, strict=True) if reply is not None]
    more = cursors.written(names[ask.query["limit"] - 1]) if len(names) > ask.query["limit"] else None
    return page(rows, more, "users")


async def get(ask: Ask) -> Result:
    """GET /users/{name}."""
    reply = await ask.cluster.client.execute_command("ACL", "GETUSER", ask.path[0])
    if reply is None:
        raise unknown("there is no user of this name")
    return Result(shown(ask.path[0], reply))


async def put(ask: Ask) -> Result:
    """PUT /users/{name}: these rules and no others."""
    await ask.cluster.client.execute_command("ACL", "SETUSER", ask.path[0], "reset", *ask.body["rules"])
    return await get(ask)


async def delete(ask: Ask) -> Result:
    """DELETE /users/{name}."""
    return Result({"count": await ask.cluster.client.execute_command("ACL", "DELUSER", ask.path[0])})


async def whoami(ask: Ask) -> Result:
    """GET /whoami."""
    return Result({"name": text(await ask.cluster.client.execute_command("ACL", "WHOAMI"))})


OPERATIONS: Final = (
    Operation(
        "GET",
        "/users",
        list_users,
        "Users by name",
        {"cursor": CURSOR, "limit": LIMIT},
        wants=record({"users": array(USER), "next": NEXT}),
    ),
    Operation("GET", "/users/{name}", get, "A user", wants=USER),
    Operation("PUT", "/users/{name}", put, "Make a user, or give it other rules", body=RULES, wants=USER),
    Operation("DELETE", "/users/{name}", delete, "Delete a user"),
    Operation("GET", "/whoami", whoami, "Who asks", wants=record({"name": string()})),
)
