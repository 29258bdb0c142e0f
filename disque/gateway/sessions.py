"""Sessions of people in a browser: a cookie that holds all of it, so every gateway with the same secret knows them.

The cookie is encrypted and signed (Fernet), and has an end. It holds the user and the password, since nodes are asked
with the rights of the user, and a token against requests that other sites make (CSRF). Each login makes a new one.

A session that was logged out is remembered until its cookie would end anyway, so a copy of the cookie is of no use;
`ended` tells other gateways. What is remembered is bounded: beyond, all sessions that began no later than the oldest
one end as well.
"""

import base64
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Final

from cryptography.fernet import Fernet, InvalidToken

#: How long a session lasts, in seconds.
LASTS_S: Final = 12 * 3600
#: Bytes of a cookie that is looked at.
COOKIE_MOST: Final = 4096
#: Sessions that were logged out, and are remembered.
ENDED_MOST = 10_000  # not Final: tests want less


@dataclass(frozen=True, slots=True)
class Session:
    """Who is logged in: None and None is somebody without a password, where nodes ask for none."""

    user: str | None
    password: str | None = field(repr=False)
    csrf: str = field(repr=False, default_factory=lambda: secrets.token_urlsafe(24))


class Sessions:
    """Makes and reads cookies."""

    def __init__(self, secret: bytes = b"", wall_s: Callable[[], float] = time.time) -> None:
        key = blake2b(secret or secrets.token_bytes(32), digest_size=32, person=b"disque-session").digest()
        self._fernet = Fernet(base64.urlsafe_b64encode(key))
        self._wall_s = wall_s
        #: Digests of sessions that were logged out, the oldest first, and when each had begun.
        self._ended: OrderedDict[bytes, int] = OrderedDict()
        #: Sessions that began until then, in seconds since 1970, have ended.
        self._since_s = 0

    def cookie(self, session: Session) -> str:
        """The cookie of a session."""
        return self._fernet.encrypt_at_time(json.dumps(asdict(session)).encode(), int(self._wall_s())).decode()

    def read(self, cookie: str | None) -> Session | None:
        """The session of a cookie; None if it is not ours, or too old."""
        if not cookie or len(cookie) > COOKIE_MOST:
            return None
        try:
            text = self._fernet.decrypt_at_time(cookie.encode(), LASTS_S, int(self._wall_s()))
            began_s = self._fernet.extract_timestamp(cookie.encode())
        except (InvalidToken, ValueError):
            return None
        session = Session(**json.loads(text))
        return None if began_s <= self._since_s or digest(session) in self._ended else session

    def end(self, cookie: str | None) -> Session | None:
        """The session of a cookie ends at this gateway, whoever else has a copy of it; None if there is none."""
        session = self.read(cookie)
        if session is None or cookie is None:
            return None
        self._ended[digest(session)] = self._fernet.extract_timestamp(cookie.encode())
        old_s = int(self._wall_s()) - LASTS_S
        while self._ended and (len(self._ended) > ENDED_MOST or next(iter(self._ended.values())) < old_s):
            _, first_s = self._ended.popitem(last=False)
            self._since_s = max(self._since_s, first_s)
        return session


def digest(session: Session) -> bytes:
    """What tells sessions apart, and nothing about them."""
    return blake2b(session.csrf.encode(), digest_size=16, person=b"disque-ended").digest()
