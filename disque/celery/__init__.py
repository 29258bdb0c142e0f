"""The broker for Celery and kombu.

import disque.celery

app = Celery("shop", broker="disque://node-1;disque://node-2")
"""

try:
    import redis
    from kombu.transport import TRANSPORT_ALIASES
except ImportError as missing:
    needed = "the transport needs kombu and redis-py: pip install 'disque-server[celery]'"
    raise ImportError(needed, name=missing.name) from missing

from disque.celery.options import SCHEMES
from disque.celery.transport import TlsTransport, Transport

__all__ = ["TlsTransport", "Transport"]

del redis  # it was only asked for
for _scheme in SCHEMES:
    TRANSPORT_ALIASES[_scheme] = "disque.celery.transport:Transport"
