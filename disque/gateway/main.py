"""`disque gateway`: runs a gateway until it is told to stop."""

import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from disque.gateway.options import new_parser

if TYPE_CHECKING:
    from disque.gateway.settings import Settings

#: What the extra brings.
NEEDED: Final = ("cryptography", "httptools", "jinja2", "prometheus_client", "redis", "starlette", "uvicorn", "uvloop")


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line, and give the exit code."""
    given = sys.argv[1:] if words is None else words
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing and not {"-h", "--help"} & set(given):
        print(f"The gateway needs {', '.join(missing)}: pip install 'disque-server[gateway]'", file=sys.stderr)
        return 1
    if missing:
        new_parser().print_help()
        return 0
    from disque.gateway.settings import BadSettingError, parse  # noqa: PLC0415 - now it is known to be there

    try:
        return start(parse(given))
    except BadSettingError as error:
        print(error, file=sys.stderr)
        return 1


def start(settings: "Settings") -> int:
    """Run a gateway. Raises BadSettingError."""
    import uvloop  # noqa: PLC0415 - whoever only asks for help need not have it

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run(settings))


async def run(settings: "Settings") -> int:
    """Run a gateway until SIGTERM, SIGINT or SIGHUP. Raises BadSettingError."""
    from disque.gateway.app import build  # noqa: PLC0415 - see above
    from disque.gateway.hub import Hub, log  # noqa: PLC0415 - see above
    from disque.gateway.lmstfy.admin import Admin  # noqa: PLC0415 - see above
    from disque.gateway.serving import connections_that_fit, listener, make_server, serve  # noqa: PLC0415 - see above

    connections = connections_that_fit(settings.connections_most)
    if connections < settings.connections_most:
        log.warning("no more than %d connections at one time: the system allows no more open files", connections)
        settings = replace(settings, connections_most=connections)
    hub = Hub(settings)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    servers = [(make_server(build(hub), settings), listener(settings.listen))]
    if settings.admin_listen is not None:
        servers.append((make_server(Admin(hub), settings), listener(settings.admin_listen)))
    for (_, where), what in zip(servers, ("", " for lmstfy's administration"), strict=False):
        host, port = where.getsockname()[:2]
        log.info("listening at %s://%s:%d%s", settings.scheme, host, port, what)
    if settings.tokens is None and not settings.secret:
        log.warning("lmstfy's tokens go with this process: --secret-file keeps them in the cluster, or --tokens-file")

    async def ending() -> None:
        await stop.wait()
        log.info("stopping")
        await hub.stop()

    end = asyncio.create_task(ending())
    await serve(servers, stop)
    stop.set()
    await end
    await hub.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
