"""The frame of the dashboard: login and logout, templates, files, and the table of its pages.

A page is a function `(request, cluster) -> dict` and a template; it is served with the rights of whoever is logged in.
Where the nodes want no password, everybody has a session without a user.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from disque import VERSION
from disque.client import DisqueError
from disque.gateway import guard
from disque.gateway.cluster import Cluster
from disque.gateway.faults import RETRY_AFTER_S, fault_of
from disque.gateway.hub import Hub
from disque.gateway.rest.api import OPERATIONS
from disque.gateway.rest.openapi import query_parameters
from disque.gateway.rest.schema import Schema
from disque.gateway.sessions import LASTS_S, Session

HERE: Final = Path(__file__).parent

Values = dict[str, object]


class Page(NamedTuple):
    """A row of the table: where it is, its name in the navigation ("": not there), its template, what it shows."""

    path: str
    name: str
    template: str
    show: Callable[[Request, Cluster], Awaitable[Values]]


async def overview(request: Request, cluster: Cluster) -> Values:
    """The nodes of the cluster."""
    del request
    return {"nodes": await cluster.nodes()}


async def api(request: Request, cluster: Cluster) -> Values:
    """The operations of the REST API."""
    del request, cluster
    return {"operations": [(one, query_parameters(one), properties(one.body)) for one in OPERATIONS]}


def properties(schema: Schema | None) -> list[tuple[str, Schema, bool]]:
    """The fields of a body: name, schema, whether it must be there."""
    if schema is None:
        return []
    return [(name, one, name in schema["required"]) for name, one in schema["properties"].items()]


#: All pages, in the order of the navigation.
PAGES: Final[tuple[Page, ...]] = (
    Page("/", "Overview", "overview.html", overview),
    Page("/api", "API", "api.html", api),
)


class Pages:
    """Serves the pages of a gateway."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.templates = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=select_autoescape(default=True, default_for_string=True),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    def routes(self) -> list[Route | Mount]:
        """All of them, with the login and the files."""
        pages = [Route(page.path, self._shows(page), methods=["GET"]) for page in PAGES]
        return [
            *pages,
            Route("/login", self.login, methods=["GET", "POST"]),
            Route("/logout", self.logout, methods=["POST"]),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ]

    def render(self, request: Request, template: str, session: Session | None, /, **values: object) -> str:
        """A page as HTML."""
        named = [page for page in PAGES if page.name]
        text = self.templates.get_template(template)
        return text.render(pages=named, path=request.url.path, session=session, version=VERSION, **values)

    def answer(
        self, request: Request, template: str, session: Session | None = None, status: int = 200, /, **values: object
    ) -> Response:
        """A page as an answer, which nobody keeps."""
        html = self.render(request, template, session, **values)
        return HTMLResponse(html, status, {"Cache-Control": "no-store"})

    def _shows(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def show(request: Request) -> Response:
            session = guard.session_of(self.hub, request)
            try:
                cluster = await self.hub.clusters.of(*(session.user, session.password) if session else (None, None))
                values = await page.show(request, cluster)
            except DisqueError as error:
                return self._failed(request, session, error)
            return self.answer(request, page.template, session, **values)

        return show

    def _failed(self, request: Request, session: Session | None, error: DisqueError) -> Response:
        fault = fault_of(error)
        if fault.status == 401:
            return RedirectResponse("/login", 303)
        answer = self.answer(request, "error.html", session, fault.status, title=fault.title, detail=str(error))
        if fault.status == 503:
            answer.headers["Retry-After"] = str(RETRY_AFTER_S)
        return answer

    async def login(self, request: Request) -> Response:
        """The form, and what comes of it: a new session."""
        if request.method == "GET":
            return self.answer(request, "login.html", wrong="")
        guard.check_site(request)
        form = await guard.form_of(self.hub, request)
        user, password = form.get("user") or None, form.get("password") or None
        try:
            welcome = await guard.may_enter(self.hub, user, password)
        except DisqueError as error:
            return self._failed(request, None, error)
        if not welcome:
            return self.answer(request, "login.html", None, 401, wrong="Wrong user or password.")
        return self._begin(Session(user, password))

    def _begin(self, session: Session) -> Response:
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            guard.cookie_name(self.hub),
            self.hub.sessions.cookie(session),
            max_age=LASTS_S,
            httponly=True,
            secure=bool(self.hub.settings.cert),
            samesite="lax",
        )
        return answer

    async def logout(self, request: Request) -> Response:
        """Forget the session in this browser."""
        guard.check_site(request)
        session = guard.session_of(self.hub, request)
        if session is not None:
            await guard.check_form(self.hub, session, request)
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(guard.cookie_name(self.hub), secure=bool(self.hub.settings.cert), httponly=True)
        return answer
