"""The frame of the dashboard: login, sessions, what other sites may not do, headers."""

import time
from collections.abc import Iterator
from typing import Final

import pytest

from disque.gateway.ended import FRESH_S
from disque.gateway.pages import NOT_TOLD, PAGES, Pages
from tests.end_to_end.node import Node
from tests.gateway.conftest import MakeGateway
from tests.gateway.support import Answer, Gateway

PASSWORD: Final = "open sesame"
FORM: Final = "application/x-www-form-urlencoded"


@pytest.fixture
def locked(node: Node, make_gateway: MakeGateway) -> Iterator[Gateway]:
    """A gateway to a node that wants a password."""
    gateway = make_gateway(password=PASSWORD)
    assert node.ask("CONFIG", "SET", "requirepass", PASSWORD) == b"OK"
    yield gateway
    gateway.run(gateway.hub.clusters.own.client.config_set("requirepass", ""))


def log_in(gateway: Gateway, password: str = PASSWORD, **headers: str) -> Answer:
    body = f"user=default&password={password.replace(' ', '+')}".encode()
    return gateway.ask("POST", "/login", body, content_type=FORM, **headers)


def log_out(gateway: Gateway, cookie: str, page: Answer) -> Answer:
    token = page.text.partition('name="csrf" value="')[2].partition('"')[0]
    return gateway.ask("POST", "/logout", f"csrf={token}".encode(), content_type=FORM, cookie=cookie)


def cookie_of(answer: Answer) -> str:
    return answer.headers["set-cookie"].partition(";")[0]


@pytest.mark.usefixtures("locked")
class TestLocked:
    def test_with_tls_the_cookie_is_for_this_host_and_for_tls_only(self, make_gateway: MakeGateway) -> None:
        answer = log_in(make_gateway(cert="cert.pem", key="key.pem", password=PASSWORD))
        assert answer.headers["set-cookie"].startswith("__Host-disque=")
        assert "Secure" in answer.headers["set-cookie"]

    def test_a_session_goes_with_every_gateway_of_the_same_secret(self, make_gateway: MakeGateway) -> None:
        first, second, third = (make_gateway(secret=secret * 16) for secret in (b"a", b"a", b"b"))
        cookie = cookie_of(log_in(first))
        assert second.ask("GET", "/", cookie=cookie).status == 200
        assert third.ask("GET", "/", cookie=cookie).status == 303

    def test_a_session_that_was_logged_out_has_ended_at_all_of_them(self, make_gateway: MakeGateway) -> None:
        first, second = (make_gateway(secret=b"a" * 16, password=PASSWORD) for _ in range(2))
        before = cookie_of(log_in(first))
        cookie = cookie_of(log_in(first, cookie=before))
        assert second.ask("GET", "/", cookie=before).status == 303, "the next login has ended it"
        page = second.ask("GET", "/", cookie=cookie)
        assert page.status == 200
        answer = log_out(first, cookie, page)
        assert answer.headers["location"] == "/login"
        assert second.hub.ended is not None
        second.hub.ended._clock_s = lambda: time.monotonic() + FRESH_S
        assert second.ask("GET", "/", cookie=cookie).status == 303
        assert second.ask("GET", "/api/v1/queues", cookie=cookie).status == 401

    def test_who_cannot_tell_the_others_says_so(self, make_gateway: MakeGateway) -> None:
        gateway = make_gateway(secret=b"a" * 16)  # its own user may do nothing
        cookie = cookie_of(log_in(gateway))
        answer = log_out(gateway, cookie, gateway.ask("GET", "/", cookie=cookie))
        assert NOT_TOLD in gateway.ask("GET", answer.headers["location"]).text
        assert gateway.ask("GET", "/", cookie=cookie).status == 303


class TestLogin:
    def test_where_nodes_want_no_password_pages_are_open(self, gateway: Gateway, node: Node) -> None:
        answer = gateway.ask("GET", "/")
        assert answer.status == 200
        assert f":{node.port}" in answer.text

    def test_who_is_not_logged_in_is_sent_to_the_login(self, locked: Gateway) -> None:
        for page in PAGES:
            answer = locked.ask("GET", page.path)
            assert (answer.status, answer.headers["location"]) == (303, "/login")
        assert 'name="password"' in locked.ask("GET", "/login").text

    def test_a_login_makes_a_session_that_scripts_cannot_read(self, locked: Gateway) -> None:
        answer = log_in(locked)
        assert (answer.status, answer.headers["location"]) == (303, "/")
        assert "HttpOnly" in answer.headers["set-cookie"]
        assert "SameSite=lax" in answer.headers["set-cookie"]
        assert PASSWORD not in answer.headers["set-cookie"]
        assert locked.ask("GET", "/", cookie=cookie_of(answer)).status == 200
        assert cookie_of(log_in(locked)) != cookie_of(answer), "each login has a session of its own"

    def test_a_wrong_password_is_refused(self, locked: Gateway) -> None:
        answer = log_in(locked, "wrong")
        assert answer.status == 401
        assert "set-cookie" not in answer.headers
        assert "Wrong user or password." in answer.text

    def test_logging_out_needs_the_token_of_the_session(self, locked: Gateway) -> None:
        cookie = cookie_of(log_in(locked))
        assert locked.ask("POST", "/logout", b"csrf=x", content_type=FORM, cookie=cookie).status == 403
        answer = log_out(locked, cookie, locked.ask("GET", "/", cookie=cookie))
        assert answer.status == 303
        assert 'disque=""' in answer.headers["set-cookie"]
        assert locked.ask("GET", "/", cookie=cookie).status == 303, "a copy of the cookie is of no use"

    def test_another_login_ends_the_session_before(self, locked: Gateway) -> None:
        before = cookie_of(log_in(locked))
        now = cookie_of(log_in(locked, cookie=before))
        assert locked.ask("GET", "/", cookie=before).status == 303
        assert locked.ask("GET", "/", cookie=now).status == 200


class TestNewPassword:
    def test_the_old_one_is_refused_at_once_at_the_login(self, locked: Gateway) -> None:
        log_in(locked)
        locked.run(locked.hub.clusters.own.client.config_set("requirepass", "other"))
        assert log_in(locked).status == 401
        assert log_in(locked, "other").status == 303
        restore(locked)

    def test_sessions_with_the_old_one_end_soon(self, locked: Gateway) -> None:
        cookie = cookie_of(log_in(locked))
        locked.run(locked.hub.clusters.own.client.config_set("requirepass", "other"))
        locked.hub.clusters._clock_s = lambda: time.monotonic() + 31
        assert locked.ask("GET", "/", cookie=cookie).status == 303
        assert locked.ask("GET", "/", cookie=cookie).status == 303
        restore(locked)


def restore(locked: Gateway) -> None:
    """The password that other tests know."""
    locked.run(locked.hub.clusters.own.client.config_set("requirepass", PASSWORD))


class TestOtherSites:
    @pytest.mark.parametrize(
        "headers",
        [
            {"sec_fetch_site": "cross-site"},
            {"sec_fetch_site": "same-site"},
            {"origin": "https://evil.example"},
            {"origin": "null"},
        ],
    )
    def test_what_another_site_has_a_browser_do_is_refused(self, gateway: Gateway, headers: dict[str, str]) -> None:
        assert log_in(gateway, **headers).status == 403

    @pytest.mark.parametrize(
        "headers", [{"sec_fetch_site": "same-origin", "origin": "http://gateway"}, {"origin": "http://gateway"}, {}]
    )
    def test_what_this_site_does_is_not(self, gateway: Gateway, headers: dict[str, str]) -> None:
        assert log_in(gateway, "", **headers).status == 303

    def test_what_is_no_form_or_too_long_is_refused(self, gateway: Gateway) -> None:
        assert gateway.ask("POST", "/login", b"{}", content_type="application/json").status == 403
        assert gateway.ask("POST", "/login", b"x" * 100_000, content_type=FORM).status == 413

    def test_every_answer_has_the_headers_that_browsers_obey(self, gateway: Gateway) -> None:
        for path in ("/", "/login", "/nothing", "/static/disque.css", "/static/../app.py", "/healthz"):
            headers = gateway.ask("GET", path).headers
            assert "script-src 'self';" in headers["content-security-policy"]
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert len(headers["x-request-id"]) == 26


class TestPages:
    def test_to_a_browser_a_path_that_there_is_not_is_a_page(self, gateway: Gateway) -> None:
        answer = gateway.ask("GET", "/nothing", accept="text/html,*/*")
        assert answer.status == 404
        assert "There is no such page" in answer.text
        assert gateway.ask("GET", "/nothing").text == "Not Found\n"

    def test_no_page_has_a_script_or_a_style_of_its_own(self, gateway: Gateway) -> None:
        for path in ("/", "/login"):
            html = gateway.ask("GET", path).text
            assert "<style" not in html
            assert " style=" not in html
            assert " onclick" not in html
            assert html.count("<script") == html.count('src="/static/') == html.count("</script>")

    def test_files_outside_of_the_folder_are_not_there(self, gateway: Gateway) -> None:
        for path in ("/static/../pages.py", "/static/%2e%2e/pages.py", "/static//etc/passwd", "/static/%00"):
            assert gateway.ask("GET", path).status == 404

    def test_values_are_shown_as_text(self, gateway: Gateway) -> None:
        environment = Pages(gateway.hub).templates
        assert environment.from_string("{{ x }}").render(x="<b>&'\"") == "&lt;b&gt;&amp;&#39;&#34;"
