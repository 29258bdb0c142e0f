"""Who asks, and whether that is meant: logins, requests that other sites make, and headers that browsers obey."""

import base64
import hmac
import ipaddress
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request

from disque.client import DisqueError
from disque.gateway.cluster import Cluster
from disque.gateway.hub import Hub, log
from disque.gateway.sessions import Session

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
#: What `Sec-Fetch-Site` says of a request that this site, or nobody but the user, has made.
OWN: Final = frozenset({"same-origin", "none"})
CSRF_HEADER: Final = "x-csrf-token"
CSRF_FIELD: Final = "csrf"
#: Bytes of a form, of one of somebody who is logged in or need not be, and fields.
FORM_MOST: Final = 64 << 10
ACTION_MOST: Final = 1 << 20
FIELDS_MOST: Final = 1000

#: Of all answers. Scripts and styles come from files of ours only.
HEADERS: Final[list[tuple[bytes, bytes]]] = [
    (
        b"content-security-policy",
        (
            b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
            b"font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        ),
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class RefusedError(Exception):
    """Not done, since it does not seem to be meant by the user."""


class TooManyError(RefusedError):
    """Not done now: too many wrong passwords came from where this came from."""


def cookie_name(hub: Hub) -> str:
    """The name of the cookie: with TLS one that other hosts cannot set."""
    return "__Host-disque" if hub.settings.cert else "disque"


async def session_of(hub: Hub, request: Request) -> Session | None:
    """The session of a request, if it has one that counts."""
    session = hub.sessions.read(request.cookies.get(cookie_name(hub)))
    if session is not None and hub.ended is not None and await hub.ended.has(session):
        return None
    return session


async def end_session(hub: Hub, request: Request) -> bool:
    """The session of a request ends here at once, and soon at all gateways; False if these cannot be told."""
    session = hub.sessions.end(request.cookies.get(cookie_name(hub)))
    if session is None or hub.ended is None:
        return True
    try:
        await hub.ended.tell(session)
    except DisqueError as error:
        log.warning("a session was logged out at this gateway only, since the nodes could not be told: %s", error)
        return False
    return True


def basic(request: Request) -> tuple[str | None, str] | None:
    """User and password of the header `Authorization: Basic`; None where there are none."""
    kind, _, word = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(word, validate=True).decode().partition(":")
    except ValueError:
        return None
    return (user or None, password) if colon else None


def check_site(request: Request) -> None:
    """Refuse what another site has a browser do. Raises RefusedError."""
    if request.method in SAFE:
        return
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in OWN:
        raise RefusedError("another site has made this request")
    origin = request.headers.get("origin")
    if site is None and origin is not None and origin.partition("://")[2] != request.headers.get("host"):
        raise RefusedError("another site has made this request")


def check_host(hub: Hub, request: Request) -> None:
    """Where no password is wanted, refuse a browser that came by the name of another site. Raises RefusedError.

    Somebody can let a name of theirs lead to the address of a gateway, and so make it their own site in a browser that
    reaches it (DNS rebinding). Addresses, names without a dot and those of `--hosts` cannot be such a name.
    """
    heads = request.headers
    if not ("origin" in heads or "sec-fetch-site" in heads or "mozilla/" in heads.get("user-agent", "").lower()):
        return
    try:
        name = urlsplit(f"//{heads.get('host', '')}").hostname or ""
    except ValueError:
        name = "."
    if not {".", ":"} & set(name) or name.endswith(".localhost") or name in hub.settings.hosts:
        return
    try:
        ipaddress.ip_address(name)
    except ValueError:
        raise RefusedError(f"nodes want no password, and {name} is not among --hosts") from None


def check_token(session: Session, request: Request, given: str | None = None) -> None:
    """A change by a session needs its token, in a header or a field of the form. Raises RefusedError."""
    said = given if given is not None else request.headers.get(CSRF_HEADER, "")
    if request.method not in SAFE and not hmac.compare_digest(said.encode(), session.csrf.encode()):
        raise RefusedError("the form is too old, or not ours: load the page again")


async def fields_of(hub: Hub, request: Request, most: int = FORM_MOST) -> list[tuple[str, str]]:
    """The fields of a form in their order, as browsers send it. Raises BodyError, RefusedError."""
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        raise RefusedError("this is no form")
    body = await hub.reading.body(request.receive, most)
    try:
        return parse_qsl(
            body.decode("ascii", "replace"),
            max_num_fields=FIELDS_MOST,
            keep_blank_values=True,
            errors="surrogateescape",
        )
    except ValueError:
        raise RefusedError("the form has too many fields") from None


async def form_of(hub: Hub, request: Request) -> dict[str, str]:
    """The fields of a form by name. Raises BodyError, RefusedError."""
    return dict(await fields_of(hub, request))


async def check_form(hub: Hub, session: Session, request: Request) -> list[tuple[str, str]]:
    """The fields of a form of ours. Raises BodyError, RefusedError."""
    fields = await fields_of(hub, request, ACTION_MOST)
    check_token(session, request, dict(fields).get(CSRF_FIELD, ""))
    return fields


async def cluster_of(hub: Hub, request: Request) -> Cluster:
    """The cluster with the rights of whoever asks. Raises RefusedError, DisqueError."""
    check_site(request)
    given = basic(request)
    if given is not None:
        return await let_in(hub, request, *given)
    session = await session_of(hub, request)
    if session is None:
        cluster = await hub.clusters.of(None, None)
        check_host(hub, request)
        return cluster
    check_token(session, request)
    return await hub.clusters.of(session.user, session.password)


async def let_in(hub: Hub, request: Request, user: str | None, password: str | None, *, now: bool = False) -> Cluster:
    """The cluster for a user, unless too many wrong passwords came from there. Raises TooManyError, DisqueError."""
    address = request.client.host if request.client else ""
    if hub.failures.must_wait(address):
        raise TooManyError("too many wrong passwords came from this address: try again in a minute")
    try:
        return await hub.clusters.of(user, password, now=now)
    except DisqueError as error:
        if error.code in {"NOAUTH", "WRONGPASS"}:
            hub.failures.note(address)
        raise


async def may_enter(hub: Hub, request: Request, user: str | None, password: str | None) -> bool:
    """Whether nodes let this user in. Raises TooManyError, and DisqueError where they cannot be asked."""
    try:
        await let_in(hub, request, user, password, now=True)
    except DisqueError as error:
        if error.code in {"NOAUTH", "WRONGPASS"}:
            return False
        raise
    return True
