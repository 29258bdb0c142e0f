"""The command line of `disque gateway`. Nothing is imported here that may be missing: the shell completes from it."""

import argparse
from pathlib import Path
from typing import Final

PORT: Final = 7780
PASSWORD_VARIABLE: Final = "DISQUE_AUTH"  # noqa: S105 - the name of a variable, no password


def new_parser() -> argparse.ArgumentParser:
    """What may stand on the command line."""
    parser = argparse.ArgumentParser("disque gateway", description="Serve a cluster over HTTP.")
    add = parser.add_argument
    add("--nodes", default="127.0.0.1:7711", metavar="HOST:PORT,...", help="nodes to begin with (127.0.0.1:7711)")
    add("--listen", default=f"127.0.0.1:{PORT}", metavar="HOST:PORT", help=f"where clients come in (127.0.0.1:{PORT})")
    add("--admin-listen", default="", metavar="HOST:PORT", help="where lmstfy's admin routes are (nowhere)")
    add("--user", help="user of the servers as whom the gateway asks")
    add("--password-file", type=Path, metavar="FILE", help=f"its password (or the variable {PASSWORD_VARIABLE})")
    add("--cluster-tls", action="store_true", help="reach the nodes with TLS")
    add("--cluster-ca", metavar="FILE", help="the authorities that nodes' certificates are checked with")
    add("--cluster-cert", metavar="FILE", help="certificate of the gateway for nodes that want one")
    add("--cluster-key", metavar="FILE", help="its key")
    add("--tls-cert", metavar="FILE", help="certificate of the gateway: clients come with https")
    add("--tls-key", metavar="FILE", help="its key")
    add("--hosts", default="", metavar="NAME,...", help="names that browsers may use where nodes want no password")
    add("--secret-file", type=Path, metavar="FILE", help="encrypts sessions and tokens; the same for all gateways")
    add("--tokens-file", type=Path, metavar="FILE", help="keep lmstfy's tokens here, and not as users of the cluster")
    add("--accounts-file", type=Path, metavar="FILE", help="lines of user:password who may use lmstfy's admin routes")
    add("--lmstfy-open-size", action="store_true", help="tell sizes of lmstfy's queues without a token, as lmstfy does")
    add("--metrics-compat", action="store_true", help="metrics under the names of lmstfy and asynq, too")
    add("--access-log", action="store_true", help="log each request")
    add("--max-connections", type=int, default=20_000, metavar="N", help="HTTP connections at one time (20000)")
    add("--grace", type=int, default=10, metavar="S", help="seconds that requests may last when it stops (10)")
    return parser
