"""What is offered is what the nodes would not refuse."""

from disque.gateway.dashboard import rights
from tests.conftest import ROOT
from tests.end_to_end.node import Node
from tests.gateway.conftest import MakeGateway
from tests.gateway.dashboard.test_actions import add, shown
from tests.gateway.support import Gateway

FORM = "application/x-www-form-urlencoded"


def test_without_users_all_is_offered(gateway: Gateway) -> None:
    assert gateway.run(rights.of(gateway.hub.clusters.own)) == frozenset(rights.PROBES)


def test_asking_changes_nothing(gateway: Gateway, node: Node) -> None:
    job_id = add(node)
    gateway.run(rights.of(gateway.hub.clusters.own))
    assert node.ask("QLEN", "q") == 1
    assert node.ask("SHOW", job_id) is not None


def test_who_may_only_look_is_offered_nothing_and_can_do_nothing(make_gateway: MakeGateway, node: Node) -> None:
    look = ("+@read", "+@inspect", "+@connection", "-@produce", "-@consume")
    assert node.ask("ACL", "SETUSER", "eve", "on", ">secret", "~*", "&*", *look) == b"OK"
    job_id = add(node)
    gateway = make_gateway(user="eve", password="secret")
    cluster = gateway.run(gateway.hub.clusters.of("eve", "secret"))
    assert not gateway.run(rights.of(cluster)) & {
        "add",
        "cancel",
        "move",
        "revive",
        "flush",
        "options",
        "cron",
        "users",
    }
    form = f"id={shown(job_id)}".encode()
    login = gateway.ask("POST", "/login", b"user=eve&password=secret", content_type=FORM)
    cookie = login.headers["set-cookie"].partition(";")[0]
    page = gateway.ask("GET", "/jobs?queue=q", cookie=cookie).text
    assert shown(job_id) in page
    assert "/do/cancel" not in page
    token = page.partition('name="csrf" value="')[2].partition('"')[0].encode()
    form += b"&csrf=" + token
    answer = gateway.ask("POST", "/do/cancel", form, content_type=FORM, cookie=cookie)
    assert answer.status == 403
    assert node.ask("QLEN", "q") == 1
    node.ask("ACL", "DELUSER", "eve")


def test_the_viewer_of_the_documentation_sees_all_and_is_offered_nothing(gateway: Gateway, node: Node) -> None:
    text = (ROOT / "docs" / "dashboard.md").read_text()
    [line] = [line for line in text.splitlines() if line.startswith("ACL SETUSER viewer")]
    assert node.ask(*line.split()) == b"OK"
    add(node, "mails")
    answer = gateway.ask("POST", "/login", b"user=viewer&password=a-long-password", content_type=FORM)
    assert answer.status == 303
    cookie = answer.headers["set-cookie"].partition(";")[0]
    assert "Busiest queues" in gateway.ask("GET", "/", cookie=cookie).text
    for path in ("/", "/queues", "/queues/mails", "/jobs?queue=mails", "/dead", "/schedules", "/workers", "/nodes"):
        page = gateway.ask("GET", path, cookie=cookie)
        assert page.status == 200
        assert "/do/" not in page.text, path
    assert gateway.ask("GET", "/users", cookie=cookie).status == 403
    node.ask("ACL", "DELUSER", "viewer")


def test_who_may_not_run_metrics_sees_the_rest_of_the_first_page(gateway: Gateway, node: Node) -> None:
    add(node, "mails")
    words = ["on", ">open sesame", "~*", "+@read", "+ping", "+info", "+cluster|nodes", "+cluster|info"]
    assert node.ask("ACL", "SETUSER", "half", *words) == b"OK"
    answer = gateway.ask("POST", "/login", b"user=half&password=open+sesame", content_type=FORM)
    page = gateway.ask("GET", "/", cookie=answer.headers["set-cookie"].partition(";")[0])
    assert page.status == 200
    assert "all answer" in page.text
    assert "Busiest" not in page.text
    node.ask("ACL", "DELUSER", "half")
