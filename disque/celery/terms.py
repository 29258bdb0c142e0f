"""A message as a job: what its properties and headers mean as options of ADDJOB, and what a delivery tells back.

The body of a job is the message as JSON, as kombu's transport for Redis has it. What the server does for it is said in
options: the priority, the delay until its eta, and how long it lives.
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeGuard

from kombu.utils.json import dumps, loads

from disque.celery.options import FOREVER_S, Options
from disque.client.failure import described
from disque.client.replies import Delivered
from disque.client.values import ttl_beyond

Raw = dict[str, Any]

#: AMQP's word for a message that need not outlive the broker.
TRANSIENT: Final = 1
#: Priorities as Celery and AMQP have them: the highest leaves first.
PRIORITY_MOST: Final = 9
#: Nothing lives shorter, in seconds: it is to be delivered if somebody waits for it.
LEAST_S: Final = 1.0
#: A task that is over, perhaps before its eta, is still delivered, so that a worker says so: it lives so long after it.
TO_SAY_SO_S: Final = 60.0
#: In a message: the server has held it back until its eta.
HELD: Final = "held"


def job_options(message: Raw, options: Options, queue_ttl_s: float | None = None) -> dict[str, Any]:
    """The options of ADDJOB for a message; ``queue_ttl_s`` is how long its queue lets messages live.

    Marks the message if the server holds it back.
    """
    words: dict[str, Any] = dict(options.job)
    priority = priority_of(message)
    if priority:
        words["priority"] = priority
    delay_s = delay_of(message)
    ttl_s = life(message, options, queue_ttl_s, max(0.0, delay_s))
    if delay_s > 0:
        message[HELD] = True
        words["delay"] = delay_s
        ttl_s = max(ttl_s, delay_s + TO_SAY_SO_S)
    words["ttl"] = min(ttl_s, FOREVER_S)
    return words


def priority_of(message: Raw) -> int:
    """The priority of a message, from 0 to 9."""
    try:
        return max(0, min(PRIORITY_MOST, int(message["properties"]["priority"])))
    except (KeyError, TypeError, ValueError):
        return 0


def life(message: Raw, options: Options, queue_ttl_s: float | None, delay_s: float) -> float:
    """How long a message lives, in seconds: the shortest of what it, its queue and the transport say.

    What queue and transport say begins when it is not put off any more. Of a task that expires the worker says so
    itself. Nobody may hold a job past half of its TTL, so the job lives for twice as long and more.
    """
    properties = message["properties"]
    lives = [options.ttl_s]
    if properties.get("delivery_mode") == TRANSIENT:
        lives.append(options.transient_ttl_s)
    if queue_ttl_s is not None:
        lives.append(queue_ttl_s)
    lives = [ttl_beyond(one, delay_s) for one in lives]
    expiration_ms = properties.get("expiration")
    if expiration_ms is not None:
        expiration_s = float(expiration_ms) / 1000
        is_checked = (message.get("headers") or {}).get("expires") is not None
        lives.append(2 * expiration_s + TO_SAY_SO_S if is_checked else expiration_s)
    return max(LEAST_S, min(lives))


def eta_of(message: Raw) -> float | None:
    """When a task is to run, in seconds since 1970; None where that is not said.

    Without a time zone it is in UTC, whatever the configuration says: that is how workers read it.
    """
    eta = (message.get("headers") or {}).get("eta")
    try:
        when = datetime.fromisoformat(eta) if isinstance(eta, str) else eta
    except ValueError:
        return None
    if not isinstance(when, datetime):
        return None
    return (when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp()


def delay_of(message: Raw) -> float:
    """How long a message is to be held back from now on, in seconds."""
    eta_s = eta_of(message)
    return 0.0 if eta_s is None else eta_s - time.time()


def packed(message: Raw) -> bytes:
    """A message as the body of a job."""
    text: str = dumps(message)
    return text.encode()


def unpacked(body: bytes) -> Raw:
    """A message out of the body of a job, or of what was published. Raises ValueError if it is none."""
    try:
        message = loads(body.decode())
    except Exception as error:  # kombu makes objects of what is marked so, and these raise anything
        raise ValueError(described(error)) from error
    if not is_message(message):
        raise ValueError("it has not the form of a message")
    message["properties"].setdefault("delivery_info", {})
    return message


def is_message(value: Any) -> TypeGuard[Raw]:
    """Whether a value has what kombu reads of a message, and in which form."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("body"), str | bytes)
        and isinstance(value.get("headers") or {}, dict)
        and isinstance(value.get("properties"), dict)
        and isinstance(value["properties"].get("delivery_info", {}), dict)
    )


def message_of(delivered: Delivered) -> Raw:
    """The message that is in a job, with the ID of the job as its tag. Raises ValueError if it is none.

    One that was delivered before is marked so. One that the server has held back until its eta runs now, whatever the
    clock of this machine says: a worker would hold it in its memory.
    """
    message = unpacked(delivered.body)
    properties = message["properties"]
    properties["delivery_tag"] = delivered.id
    if delivered.nacks or delivered.additional_deliveries:
        properties["delivery_info"]["redelivered"] = True
        if isinstance(message.get("headers"), dict):
            message["headers"]["redelivered"] = True
    if message.pop(HELD, False) and delay_of(message) > 0:
        message["headers"]["eta"] = None
    return message


def waits_until(message: Mapping[str, Any]) -> datetime | None:
    """When a message that the server holds back is due, in UTC."""
    eta_s = eta_of(dict(message))
    return None if eta_s is None else datetime.fromtimestamp(eta_s, UTC)
