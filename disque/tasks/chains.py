"""What comes after a job: the next job of a chain, added under a key of this one's ID before this one is acknowledged.

If the worker dies between the two, the job runs again, and adding the next one again adds nothing: the key is taken. So
the chain goes on exactly once, while its links may run more than once. The key lives for a day (UNIQUE ... 86400),
longer than a job that was done may come back.
"""

from collections.abc import Mapping
from typing import Any

from disque.client import NewJob
from disque.tasks.errors import MessageError
from disque.tasks.handle import WINDOW_S, next_key
from disque.tasks.message import Format, Message
from disque.tasks.task import TERMS


def following(links: list[dict[str, Any]], job_id: str, result: object, form: Format) -> tuple[NewJob, Message]:
    """The next job, and its call. ``result`` is what this one has returned. Raises MessageError for wrong links."""
    link, rest = links[0], links[1:]
    try:
        call: Mapping[str, Any] = link["call"]
        args = list(call.get("args", []))
        message = Message(
            call["task"],
            [result, *args] if link["takes"] else args,
            dict(call.get("kwargs", {})),
            call.get("timeout"),
            call.get("deadline"),
            bool(call.get("result")),
            rest or None,
        )
        terms = {name: value for name, value in link["job"].items() if name in TERMS}
        job = NewJob(link["queue"], message.encode(form), **terms, unique=next_key(job_id), window=WINDOW_S)
        job.words(0)  # what the client would refuse, it refuses each time
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MessageError(f"what comes after the job cannot be read: {error!r}") from error
    return job, message
