"""Tokens as users of the cluster: known at all nodes and gateways, and as durable as all that the nodes agree on.

A token of the namespace `ns` is a user whose password it is, and who may produce, consume and inspect the queues
`ns/*`. Its name is made of a digest of namespace and token, so it is found without a list. What else is to be known of
a token (itself, since its password is kept as a digest; its description and its limit) stands encrypted with the secret
of the gateways in names of channels, which mean nothing to anybody else.
"""

import base64
import json
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

from cryptography.fernet import Fernet, InvalidToken

from disque.client.replies import pairs, text, texts
from disque.gateway.cluster import Cluster
from disque.gateway.lmstfy.tokens import BrokenError, Known, Limit

#: How the names of these users, and of their channels, begin.
HEAD: Final = "lmstfy:"
RIGHTS: Final = ("+@produce", "+@consume", "+@inspect")
#: Characters of one channel, and of all that is kept of a token: bounds of the servers, with some room.
CHUNK: Final = 400
KEPT_MOST: Final = 8000
#: How long what was asked of a token counts, in seconds; tokens of which that is kept.
FRESH_S: Final = 5.0
CACHED_MOST: Final = 10_000


class UserTokens:
    """All tokens, in the cluster. Raises DisqueError where it cannot be asked, or the gateway may not do that."""

    def __init__(self, cluster: Cluster, secret: bytes, clock_s: Callable[[], float]) -> None:
        self.cluster = cluster
        key = blake2b(secret, digest_size=32, person=b"disque-tokens").digest()
        self._fernet = Fernet(base64.urlsafe_b64encode(key))
        self._clock_s = clock_s
        self._cache: dict[str, tuple[float, Known | None]] = {}

    async def find(self, namespace: str, token: str) -> Known | None:
        """What is known of a token; None: there is no such. True as of some seconds ago."""
        name = name_of(namespace, token)
        asked_s, known = self._cache.get(name, (-FRESH_S, None))
        if self._clock_s() - asked_s >= FRESH_S:
            found = await self._user(name)
            known = None if found is None else found[2]
            self._keep(name, known)
        return known

    async def of(self, namespace: str) -> dict[str, Known]:
        """All tokens of a namespace."""
        return {token: known for one, token, known in await self._all() if one == namespace}

    async def limits(self) -> list[tuple[str, str, Limit]]:
        """All limits: namespace, token, limit."""
        return [(namespace, token, known.limit) for namespace, token, known in await self._all() if known.limit]

    async def add(self, namespace: str, token: str, description: str) -> bool:
        """Add a token; False: there is one already."""
        if await self._user(name_of(namespace, token)) is not None:
            return False
        await self._set(namespace, token, Known(description))
        return True

    async def remove(self, namespace: str, token: str) -> None:
        """Remove a token and its limit."""
        name = name_of(namespace, token)
        await self.cluster.client.execute_command("ACL", "DELUSER", name)
        self._keep(name, None)

    async def limit(self, namespace: str, token: str, limit: Limit | None) -> None:
        """Set or remove the limit of a token; nothing where there is no such token."""
        found = await self._user(name_of(namespace, token))
        if found is not None:
            await self._set(namespace, token, found[2]._replace(limit=limit))

    def _keep(self, name: str, known: Known | None) -> None:
        if len(self._cache) >= CACHED_MOST:
            self._cache.clear()
        self._cache[name] = (self._clock_s(), known)

    async def _set(self, namespace: str, token: str, known: Known) -> None:
        limit = None if known.limit is None else known.limit.shown()
        value = json.dumps([namespace, token, known.description, limit]).encode()
        kept = self._fernet.encrypt(value).decode()
        if len(kept) > KEPT_MOST:
            raise BrokenError("the description of a token is too long")
        chunks = [kept[at : at + CHUNK] for at in range(0, len(kept), CHUNK)]
        channels = [f"&{HEAD}{number:02}:{chunk}" for number, chunk in enumerate(chunks)]
        name = name_of(namespace, token)
        rules = ["reset", "on", f">{token}", f"~{namespace}/*", *channels, *RIGHTS]
        await self.cluster.client.execute_command("ACL", "SETUSER", name, *rules)
        self._keep(name, known)

    async def _all(self) -> list[tuple[str, str, Known]]:
        names = texts(await self.cluster.client.execute_command("ACL", "USERS"))
        found = [await self._user(name) for name in names if name.startswith(HEAD)]
        return [one for one in found if one is not None and one[1]]

    async def _user(self, name: str) -> tuple[str, str, Known] | None:
        """Namespace, token, and what is known of it; the first two are empty if another secret has written them."""
        reply = await self.cluster.asking.ask([b"ACL", b"GETUSER", name.encode()])
        if reply is None:
            return None
        rules = {text(word): value for word, value in pairs(reply)}
        return self._read(text(rules["channels"]))

    def _read(self, channels: str) -> tuple[str, str, Known]:
        head = f"&{HEAD}"
        chunks = sorted(one.removeprefix(head) for one in channels.split() if one.startswith(head))
        try:
            value = self._fernet.decrypt("".join([chunk.partition(":")[2] for chunk in chunks]).encode())
            namespace, token, description, limit = json.loads(value)
            return namespace, token, Known(description, None if limit is None else Limit(**limit))
        except (InvalidToken, ValueError, TypeError):
            return "", "", Known("")


def name_of(namespace: str, token: str) -> str:
    """The name of the user that a token is."""
    both = f"{namespace}/{token}".encode("utf-8", "replace")
    return HEAD + blake2b(both, digest_size=20, person=b"disque-token").hexdigest()
