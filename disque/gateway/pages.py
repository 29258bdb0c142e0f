"""The frame of the dashboard: login and logout, templates, files, and the table of its pages.

A page is a function `(request, cluster) -> dict` and a template; it is served with the rights of whoever is logged in.
Where the nodes want no password, everybody is let in. A template with a block `live` is also a stream: that block
again and again, as server-sent events, while somebody looks. What pages can do is the table of
`disque.gateway.dashboard.actions`; after it the browser is sent back to its page, with a sentence that says what came
of it.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlencode, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from disque import VERSION
from disque.client import DisqueError
from disque.gateway import guard
from disque.gateway.cluster import Cluster
from disque.gateway.dashboard import actions, adding, form, looks, rights
from disque.gateway.dashboard.sampler import EVERY_S
from disque.gateway.faults import RETRY_AFTER_S, fault_of
from disque.gateway.hub import Hub
from disque.gateway.rest.api import OPERATIONS
from disque.gateway.rest.openapi import query_parameters
from disque.gateway.rest.operation import Problem
from disque.gateway.rest.schema import Schema
from disque.gateway.sessions import LASTS_S, Session

HERE: Final = Path(__file__).parent
#: What a browser asks for that wants the stream of a page.
STREAM: Final = "text/event-stream"
#: Pages that are kept live at one time. Others are served, and not renewed by themselves.
STREAMS_MOST: Final = 200

#: What the page of the login says after a logout that only this gateway knows of.
NOT_TOLD: Final = "You are logged out here. The nodes could not be told, so other gateways may not know."

Values = dict[str, object]


class NameConvertor(PathConvertor):
    """The rest of a path as a name: of any signs, ends of lines, too."""

    regex = "(?s:.*)"


register_url_convertor("name", NameConvertor())


class Page(NamedTuple):
    """A row of the table: where it is, its name in the navigation ("": not there), its template, what it shows."""

    path: str
    name: str
    template: str
    show: Callable[[Request, Cluster], Awaitable[Values]]


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
    Page("/", "Overview", "overview.html", looks.overview),
    Page("/queues", "Queues", "queues.html", looks.queues),
    Page("/queues/{queue:name}", "", "queue.html", looks.queue),
    Page("/jobs", "Jobs", "jobs.html", looks.list_jobs),
    Page("/jobs/{job}", "", "job.html", looks.job),
    Page("/dead", "Dead letters", "dead.html", looks.dead),
    Page("/schedules", "Schedules", "schedules.html", looks.schedules),
    Page("/schedules/{name:name}", "", "schedule.html", looks.schedule),
    Page("/workers", "Workers", "workers.html", looks.workers),
    Page("/nodes", "Nodes", "nodes.html", looks.nodes),
    Page("/nodes/{node}", "", "node.html", looks.node),
    Page("/users", "Users", "users.html", looks.users),
    Page("/add", "Add", "add.html", adding.add),
    Page("/api", "API", "api.html", api),
)


class Pages:
    """Serves the pages of a gateway."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        #: Streams at this moment.
        self.streams = 0
        self.templates = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=select_autoescape(default=True, default_for_string=True),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.templates.filters.update(form.FILTERS)

    def routes(self) -> list[Route | Mount]:
        """All of them, with the login and the files."""
        pages = [Route(page.path, self._shows(page), methods=["GET"]) for page in PAGES]
        return [
            *pages,
            Route("/do/{action}", self.do, methods=["POST"]),
            Route("/login", self.login, methods=["GET", "POST"]),
            Route("/logout", self.logout, methods=["POST"]),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ]

    def values(self, request: Request, session: Session | None, given: Values) -> Values:
        """What all templates know, and what this page shows."""
        query = form.query(request)
        said = actions.sentence(query.get("did", ""), query.get("n", "0"), query.get("more", ""))
        common: Values = {
            "back": "/",
            "pages": [page for page in PAGES if page.name],
            "path": request.scope["path"],
            "url": address_of(request),
            "session": session,
            "version": VERSION,
            "may": frozenset[str](),
            "said": said,
            "said_job": query.get("job", "") if said else "",
        }
        return {**common, **given}

    def render(self, request: Request, template: str, session: Session | None, /, **values: object) -> str:
        """A page as HTML."""
        return self.templates.get_template(template).render(self.values(request, session, values))

    def answer(
        self, request: Request, template: str, session: Session | None = None, status: int = 200, /, **values: object
    ) -> Response:
        """A page as an answer, which nobody keeps."""
        html = self.render(request, template, session, **values)
        return HTMLResponse(html.encode("utf-8", "replace"), status, {"Cache-Control": "no-store"})

    def nothing(self, request: Request) -> Response:
        """The page that there is not."""
        detail = "It may have been another one, or the address has a mistake."
        return self.answer(request, "error.html", None, 404, title="There is no such page", detail=detail)

    async def _cluster_of(self, session: Session | None, request: Request) -> Cluster:
        if session is not None:
            return await self.hub.clusters.of(session.user, session.password)
        cluster = await self.hub.clusters.of(None, None)
        guard.check_host(self.hub, request)
        return cluster

    def _shows(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def show(request: Request) -> Response:
            session = await guard.session_of(self.hub, request)
            try:
                cluster = await self._cluster_of(session, request)
                if request.headers.get("accept") == STREAM:
                    if self.streams >= STREAMS_MOST:
                        return PlainTextResponse("too many pages are open\n", 503, {"Retry-After": str(RETRY_AFTER_S)})
                    return StreamingResponse(self.stream(page, request), media_type=STREAM)
                values = await self._shown(page, request, cluster)
            except DisqueError as error:
                return self._failed(request, session, error)
            except looks.ElsewhereError as elsewhere:
                return RedirectResponse(str(elsewhere), 303)
            except Problem as problem:
                fault = problem.fault
                return self.answer(request, "error.html", session, fault.status, title=fault.title, detail=str(problem))
            return self.answer(request, page.template, session, **values)

        return show

    @staticmethod
    async def _shown(page: Page, request: Request, cluster: Cluster) -> Values:
        """What a page shows, and what it offers. Raises DisqueError and what the page raises."""

        async def both() -> Values:
            return {"may": await rights.of(cluster), **await page.show(request, cluster)}

        return await cluster.soon(both)

    async def stream(self, page: Page, request: Request) -> AsyncGenerator[str, None]:
        """The live part of a page, each time that it has changed. It ends when the session does."""
        self.streams += 1
        try:
            async for text in self._parts(page, request):
                yield text
        finally:
            self.streams -= 1

    async def _parts(self, page: Page, request: Request) -> AsyncGenerator[str, None]:
        began = await guard.session_of(self.hub, request)
        template = self.templates.get_template(page.template)
        live = template.blocks.get("live")
        last = ""
        while live is not None and await self._goes_on(request, began):
            try:
                cluster = await self._cluster_of(began, request)
                values = await self._shown(page, request, cluster)
                context = template.new_context(self.values(request, None, values))
                text = "".join(live(context))
            except DisqueError as error:
                text = self.templates.get_template("gone.html").render(detail=str(error))
            if text != last:
                last = text
                yield "".join(f"data: {line}\n" for line in text.splitlines()) + "\n"
            else:
                yield ": nothing new\n\n"
            try:
                await asyncio.wait_for(self.hub.stopping.wait(), EVERY_S)
            except TimeoutError:
                continue

    async def _goes_on(self, request: Request, began: Session | None) -> bool:
        """Whether a stream goes on: neither the gateway stops, nor has the session of who looks ended."""
        return not self.hub.stopping.is_set() and await guard.session_of(self.hub, request) == began

    async def do(self, request: Request) -> Response:
        """An action: what a form of a page says."""
        session = await guard.session_of(self.hub, request)
        guard.check_site(request)
        if session is None:
            fields = await guard.fields_of(self.hub, request, guard.ACTION_MOST)
        else:
            fields = await guard.check_form(self.hub, session, request)
        back = own_path(dict(fields).get("back", "/"))
        action = actions.ACTIONS.get(request.path_params["action"])
        if action is None:
            return self.answer(request, "error.html", session, 404, title="There is no such action", detail="")
        try:
            cluster = await self._cluster_of(session, request)
            did = await action.do(cluster, actions.read(fields))
        except actions.BadFormError as error:
            values = {"title": "That cannot be done", "detail": str(error), "back": back}
            return self.answer(request, "error.html", session, 400, **values)
        except actions.StoppedError as stopped:
            return self._failed(request, session, stopped.error, back, stopped.done)
        except DisqueError as error:
            return self._failed(request, session, error, back)
        words = {"did": request.path_params["action"], "n": did.jobs}
        words |= {"more": did.more} if did.more else {}
        words |= {"job": did.job_id} if did.job_id else {}
        return RedirectResponse(f"{back}{'&' if '?' in back else '?'}{urlencode(words)}", 303)

    def _failed(
        self, request: Request, session: Session | None, error: DisqueError, back: str | None = None, done: int = 0
    ) -> Response:
        fault = fault_of(error)
        if fault.status == 401:
            return RedirectResponse("/login", 303)
        detail = f"{error}. Before, it was done to {form.jobs(done)}." if done else str(error)
        values = {"title": fault.title, "detail": detail, "back": back or address_of(request)}
        answer = self.answer(request, "error.html", session, fault.status, **values)
        if fault.again:
            answer.headers["Retry-After"] = str(RETRY_AFTER_S)
        return answer

    async def login(self, request: Request) -> Response:
        """The form, and what comes of it: a new session."""
        if request.method == "GET":
            wrong = NOT_TOLD if form.query(request).get("told") == "no" else ""
            return self.answer(request, "login.html", wrong=wrong)
        guard.check_site(request)
        given = await guard.form_of(self.hub, request)
        user, password = given.get("user") or None, given.get("password") or None
        try:
            welcome = await guard.may_enter(self.hub, request, user, password)
        except DisqueError as error:
            return self._failed(request, None, error)
        if not welcome:
            return self.answer(request, "login.html", None, 401, wrong="Wrong user or password.")
        await guard.end_session(self.hub, request)
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
        """End the session: copies of its cookie are soon of no use at any gateway."""
        guard.check_site(request)
        session = await guard.session_of(self.hub, request)
        told = True
        if session is not None:
            await guard.check_form(self.hub, session, request)
            told = await guard.end_session(self.hub, request)
        answer = RedirectResponse("/login" if told else "/login?told=no", 303)
        answer.delete_cookie(guard.cookie_name(self.hub), secure=bool(self.hub.settings.cert), httponly=True)
        return answer


def address_of(request: Request) -> str:
    """Path and query as they were asked for."""
    raw, query = request.scope["raw_path"], request.scope["query_string"]
    return f"{raw.decode('latin-1')}{'?' * bool(query)}{query.decode('latin-1')}"


def own_path(text: str) -> str:
    """Where to go back to: a path of ours, without what was said there before; else the first page."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return "/"
    is_odd = not text.isascii() or not text.isprintable() or "\\" in text
    if is_odd or parts.scheme or parts.netloc or not text.startswith("/") or text.startswith("//"):
        return "/"
    kept = [one for one in parts.query.split("&") if one and one.partition("=")[0] not in {"did", "n", "more", "job"}]
    return f"{parts.path}?{'&'.join(kept)}" if kept else parts.path
