"""A replicated job queue server that speaks RESP: jobs survive a dead machine, any Redis client can use them."""

from typing import Final

VERSION: Final = "0.1.0"
