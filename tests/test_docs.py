"""What is written down agrees with the code: rules that are cited, the tables of messages and commands."""

import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from cluster.messages import KINDS
from tests.conftest import ROOT

DOCS: Final = ROOT / "docs"
#: Where code is that cites promises ("I3") and rules ("Rule 25", "rules (3) and (4)").
CODE: Final = ("cluster", "disque", "examples", "tests")
PROMISE: Final = re.compile(r"\bI[1-9][0-9]?\b")
RULES: Final = re.compile(r"\b[Rr]ules? \(?[0-9]+\)?(?:(?:, | and | or |, and | to |-)\(?[0-9]+\)?)*")
LINK: Final = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCE: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def none_of(wrong: list[str]) -> None:
    """Fail with one line for each thing that is wrong."""
    assert not wrong, "\n" + "\n".join(sorted(wrong))


@cache
def page(name: str) -> str:
    """The text of a file of the project."""
    return (ROOT / name).read_text(encoding="utf-8")


@cache
def anchors(name: str) -> frozenset[str]:
    """What can be linked to in a page: its headings, as GitHub and mkdocs write them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page(name)), re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings)


def prose_of(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of all comments and strings of a file."""
    with tokenize.open(path) as lines:
        for token in tokenize.generate_tokens(lines.readline):
            if token.type in {tokenize.COMMENT, tokenize.STRING} or "FSTRING" in tokenize.tok_name[token.type]:
                yield token.start[0], token.string


def cited(text: str) -> list[str]:
    """The headings of docs/protocol.md that a text speaks of."""
    rules = [number for match in RULES.findall(text) for number in re.findall("[0-9]+", match)]
    return [name.lower() for name in PROMISE.findall(text)] + [f"rule-{number}" for number in rules]


class TestCitations:
    def test_each_promise_and_rule_that_is_cited_is_in_the_protocol(self) -> None:
        known = anchors("docs/protocol.md")
        files = [path for folder in CODE for path in sorted((ROOT / folder).rglob("*.py"))]
        none_of([
            f"{path.relative_to(ROOT)}:{line} cites {name}, which docs/protocol.md does not have"
            for path in files
            if path != Path(__file__)
            for line, text in prose_of(path)
            for name in cited(text)
            if name not in known
        ])

    def test_citations_are_found(self) -> None:
        assert cited("see Rule 25, and rules (3) and (17)") == ["rule-25", "rule-3", "rule-17"]
        assert cited("I3: it is never delivered twice") == ["i3"]
        assert cited("I am, and INFO 5 is a rule of thumb") == []

    def test_each_promise_and_rule_has_a_heading(self) -> None:
        wanted = {*(f"i{number}" for number in range(1, 12)), *(f"rule-{number}" for number in range(1, 42))}
        assert wanted <= anchors("docs/protocol.md")


class TestMessages:
    def test_the_table_of_messages_is_that_of_the_code(self) -> None:
        rows = [f"| {number} | `{name}` | `{' '.join(shape.fields)}` | " for number, (name, shape) in KINDS.items()]
        none_of([f"docs/protocol.md wants a row: {row}" for row in rows if row not in page("docs/protocol.md")])

    def test_there_are_no_other_rows(self) -> None:
        rows = re.findall(r"^\| ([0-9]+) \| `", page("docs/protocol.md"), re.MULTILINE)
        assert list(map(int, rows)) == list(KINDS)


class TestLinks:
    """Those of the pages outside of docs/, and all to these. mkdocs looks at links within docs/."""

    def test_links_lead_to_files_and_headings_that_exist(self) -> None:
        names = [path.name for path in ROOT.glob("*.md")]
        wrong = []
        for name in names:
            for link in LINK.findall(FENCE.sub("", page(name))):
                path, _, anchor = link.partition("#")
                if ":" in path:
                    continue
                target = path or name
                if not (ROOT / target).exists() or (anchor and anchor not in anchors(target)):
                    wrong.append(f"{name} links to {link}")
        none_of(wrong)
