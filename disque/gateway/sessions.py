"""Sessions of people in a browser: a cookie that holds all of it, so every gateway with the same secret knows them.

The cookie is encrypted and signed (Fernet), and has an end. It holds the user and the password, since nodes are asked
with the rights of the user, and a token against requests that other sites make (CSRF). Each login makes a new one.
"""

import base64
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Final

from cryptography.fernet import Fernet, InvalidToken

#: How long a session lasts, in seconds.
LASTS_S: Final = 12 * 3600
#: Bytes of a cookie that is looked at.
COOKIE_MOST: Final = 4096


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

    def cookie(self, session: Session) -> str:
        """The cookie of a session."""
        return self._fernet.encrypt_at_time(json.dumps(asdict(session)).encode(), int(self._wall_s())).decode()

    def read(self, cookie: str | None) -> Session | None:
        """The session of a cookie; None if it is not ours, or too old."""
        if not cookie or len(cookie) > COOKIE_MOST:
            return None
        try:
            text = self._fernet.decrypt_at_time(cookie.encode(), LASTS_S, int(self._wall_s()))
        except (InvalidToken, ValueError):
            return None
        return Session(**json.loads(text))
