"""The pages in a real Chromium: they fit, they can be read and worked, and nothing that others wrote runs in them."""

import re
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from tests.conftest import path_of
from tests.end_to_end.node import LOOPBACK, Node, until
from tests.gateway.dashboard.test_actions import add, die, shown
from tests.gateway.test_trouble import Process

pytest.importorskip("playwright", reason="playwright is missing: it is in the extra test")

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

pytestmark = pytest.mark.slow

#: What would leave a mark in the page if it ran.
SCRIPT: Final = "\"'><script>window.ran=1</script><img src=x onerror=window.ran=1>"
WIDTHS: Final = (390, 820, 1440)
#: Findings of axe that count.
BAD: Final = {"serious", "critical"}

Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with sync_playwright() as playwright:
        one = playwright.chromium.launch(executable_path=path_of("chromium"), args=flags)
        yield one
        one.close()


@pytest.fixture(scope="module")
def site(one_node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a gateway that serves the node of the file."""
    one = Process(tmp_path_factory.mktemp("gateway"), one_node)
    yield f"http://{LOOPBACK}:{one.port}"
    one.end()


@pytest.fixture
def open_page(browser: Browser, site: str) -> Iterator[Open]:
    """Opens a path in a new window; what scripts complain of fails the test."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def go(path: str, **options: object) -> Page:
        context = browser.new_context(base_url=site, **options)  # type: ignore[arg-type]  # as Playwright has them
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
        page.goto(path)
        return page

    yield go
    for context in contexts:
        context.close()
    assert not complaints


@pytest.fixture
def shop(node: Node) -> list[str]:
    """A bit of everything, and the paths of all pages."""
    waiting = add(node, "mails", '{"to": "ada"}', "HEADER", "tenant", "acme", "TRIES", 3)
    long = add(node, "W" * 300, "x" * 3000, "HEADER", "h" * 100, "v" * 400)
    add(node, "mails", "later", "DELAY", 600)
    dead = die(node, "SMTPError: the mailbox is full", "orders")
    node.ask("CRON", "SET", "nightly", "30 2 * * *", "reports", "{}", "TZ", "Europe/Berlin")
    [node_id] = re.findall("^[0-9a-f]{40}", node.ask("CLUSTER", "NODES").decode())  # type: ignore[union-attr]  # bytes
    lists = ["/", "/queues", "/jobs", "/jobs?queue=mails", "/dead", "/dead?queue=orders:dead", "/schedules"]
    singles = [
        "/queues/mails",
        f"/queues/{'W' * 300}",
        f"/jobs/{shown(waiting)}",
        f"/jobs/{shown(long)}",
        f"/jobs/{shown(dead)}",
        "/schedules/nightly",
    ]
    return [*lists, *singles, "/workers", "/nodes", f"/nodes/{node_id}", "/users", "/add", "/login", "/api"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_at_all_widths_and_axe_finds_nothing_serious(open_page: Open, shop: list[str], scheme: str) -> None:
    wrong: list[str] = []
    page = open_page("/", color_scheme=scheme)
    for path in shop:
        page.goto(path)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            wrong += [f"{path} at {width}: {over} px too wide"] if over > 0 else []
        found = Axe().run(page).response["violations"]
        wrong += [f"{path}: {one['id']}: {one['nodes'][0]['html']}" for one in found if one["impact"] in BAD]
    assert not wrong, "\n".join(wrong)


def test_in_a_small_window_the_navigation_shows_where_one_is(open_page: Open) -> None:
    page = open_page("/", viewport={"width": 390, "height": 800})
    for path in ("/", "/schedules", "/users", "/api"):
        page.goto(path)
        here = page.locator("header nav [aria-current]")
        expect(here).to_be_in_viewport(ratio=0.99)


def test_nothing_that_others_wrote_runs(open_page: Open, node: Node) -> None:
    job_id = add(node, SCRIPT, SCRIPT, "HEADER", "x", SCRIPT)
    dead_id = die(node, SCRIPT, "q" + SCRIPT)
    ended_id = add(node, "r", "x", "RETAIN", 600)
    node.ask("GETJOB", "FROM", "r")
    node.ask("ACKJOB", ended_id, "RESULT", SCRIPT)
    node.ask("CRON", "SET", SCRIPT, "30 2 * * *", SCRIPT, SCRIPT)
    node.ask("ACL", "SETUSER", "<script>window.ran=1</script>", "on", "nopass")
    page = open_page("/")
    page.goto("/queues")
    for link in page.get_by_role("link", name=SCRIPT, exact=True).all()[:1]:
        link.click()
    searches = [f"/queues?q={SCRIPT}", f"/jobs/{SCRIPT.replace('/', '')}"]
    paths = ["/jobs?state=queued", f"/jobs/{shown(job_id)}", f"/jobs/{shown(dead_id)}", f"/jobs/{shown(ended_id)}"]
    until(lambda: ":dead" in page.request.get("/dead").text(), "the list of queues, which counts for a moment,")
    page.goto("/dead")
    page.get_by_role("link", name=f"q{SCRIPT}:dead", exact=True).click()
    expect(page.get_by_role("heading", level=2)).to_contain_text("by error")
    for path in [*paths, "/schedules", "/users", "/workers", "/", *searches]:
        page.goto(path)
        page.wait_for_load_state("load")
        assert page.evaluate("window.ran") is None, path
    node.ask("CRON", "DEL", SCRIPT)
    node.ask("ACL", "DELUSER", "<script>window.ran=1</script>")


def tab_into(page: Page) -> None:
    """Presses Tab until something has the focus: Chromium drops the keys that come before it has drawn a page."""
    for _ in range(50):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement !== document.body"):
            return


def test_by_keyboard_alone_a_dead_letter_goes_back(open_page: Open, node: Node) -> None:
    die(node, "no", "orders")
    page = open_page("/")
    until(lambda: "orders:dead" in page.request.get("/dead").text(), "the list of queues, which counts for a moment,")
    tab_into(page)
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == "Dead letters":
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Dead letters")
    tab_into(page)
    page.keyboard.press("Enter")  # skip to the content
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == "Put all back":
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("Put back where they died: 1 job.")
    assert node.ask("QLEN", "orders") == 1


def test_jobs_are_chosen_and_cancelled(open_page: Open, node: Node) -> None:
    for number in range(3):
        add(node, "mails", str(number))
    page = open_page("/jobs?queue=mails")
    boxes = page.get_by_role("checkbox")
    boxes.nth(0).check()
    boxes.nth(2).check()
    page.get_by_role("button", name="Cancel", exact=True).first.click()
    expect(page.get_by_role("status")).to_contain_text("Cancelled: 2 jobs.")
    assert node.ask("QLEN", "mails") == 1


def test_what_destroys_asks_first(open_page: Open, node: Node) -> None:
    add(node, "mails")
    page = open_page("/queues/mails")
    sure = page.get_by_role("button", name="Delete 1 job", exact=True)
    expect(sure).to_be_hidden()
    page.get_by_text("Delete all", exact=True).click()
    sure.click()
    expect(page.get_by_role("status")).to_contain_text("Deleted: 1 job.")
    assert node.ask("QLEN", "mails") == 0


def test_to_delete_dead_letters_of_an_error_asks_first(open_page: Open, node: Node) -> None:
    for error in ("one", "one", "two"):
        die(node, error, "orders")
    page = open_page("/dead?queue=orders:dead")
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="one", exact=True))
    sure = row.get_by_role("button", name="Delete 2 jobs", exact=True)
    expect(sure).to_be_hidden()
    row.get_by_text("Delete", exact=True).click()
    sure.click()
    expect(page.get_by_role("status")).to_contain_text("Deleted: 2 jobs.")
    assert node.ask("QLEN", "orders:dead") == 1


def test_a_job_is_edited_and_added_again(open_page: Open, node: Node) -> None:
    job_id = add(node, "mails", '{"to": "ada"}', "TRIES", 2)
    page = open_page(f"/jobs/{shown(job_id)}")
    page.get_by_role("link", name="Edit and add again").click()
    page.get_by_label("Body", exact=True).fill('{"to": "bob"}')
    page.get_by_role("button", name="Add the job").click()
    page.get_by_role("link", name="Look at the job").click()
    expect(page.locator("pre").first).to_contain_text('"to": "bob"')


@pytest.mark.parametrize("width", WIDTHS)
def test_what_happened_stands_beside_its_time_however_long_it_is(open_page: Open, node: Node, width: int) -> None:
    job_id = shown(die(node, "a long error " * 30, "orders"))
    page = open_page(f"/jobs/{job_id}", viewport={"width": width, "height": 900})
    event = page.locator(".line-of-time li", has_text="a long error")
    time, text = (event.locator("span").nth(number).bounding_box() for number in range(2))
    assert time
    assert text
    assert text["x"] >= time["x"] + time["width"] or text["y"] >= time["y"] + time["height"]


def test_a_job_is_found_by_its_id(open_page: Open, node: Node) -> None:
    job_id = add(node, "mails")
    page = open_page("/jobs")
    page.get_by_label("ID", exact=True).fill(job_id)
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(job_id)


def test_what_is_live_is_renewed(open_page: Open, node: Node) -> None:
    add(node, "mails")
    page = open_page("/queues/mails")
    tile = page.locator(".tiles dd").first
    expect(tile).to_have_text("1")
    add(node, "mails")
    expect(tile).to_have_text("2", timeout=20_000)


def test_colours_are_switched_and_kept(open_page: Open) -> None:
    page = open_page("/", color_scheme="light")
    page.get_by_role("button", name="Dark", exact=True).click()
    page.goto("/queues")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    expect(page.get_by_role("button", name="Light", exact=True)).to_be_visible()


def test_pages_work_without_javascript(open_page: Open, node: Node) -> None:
    job_id = add(node, "mails")
    page = open_page("/queues/mails", java_script_enabled=False)
    page.get_by_role("button", name="Deliver none").click()
    expect(page.get_by_role("status")).to_contain_text("The pause was set.")
    page.get_by_role("button", name="Let all go on").click()
    page.goto("/jobs")
    page.get_by_label("ID", exact=True).fill(job_id)
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(job_id)
