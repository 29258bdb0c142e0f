"""What is written down agrees with the code: rules that are cited, messages, commands, INFO fields; and the site."""

import os
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from cluster import handshake
from cluster.capabilities import CAPABILITIES
from cluster.messages import EARLY, FAIL, KINDS, MEET, NEEDS, PING, PONG
from disque.core.commands import ROWS
from disque.core.model import extra
from disque.core.model.spec import ENCODED_MOST, NEWER_BYTES, NEWER_MOST, ROWS_MOST, TABLE, VALUE_BYTES
from tests.conftest import ROOT
from tests.support.pages import renewed

DOCS: Final = ROOT / "docs"
#: Where code is that cites promises ("I3") and rules ("Rule 25", "rules (3) and (4)").
CODE: Final = ("cluster", "disque", "examples", "tests")
PROMISE: Final = re.compile(r"\bI[1-9][0-9]?\b")
RULES: Final = re.compile(r"\b[Rr]ules? \(?[0-9]+\)?(?:(?:, | and | or |, and | to |-)\(?[0-9]+\)?)*")
#: Messages that do not wait for the journal. Those about nodes are told by the membership, which has none.
AT_ONCE: Final = EARLY | {PING, PONG, MEET, FAIL}
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
        none_of(
            [
                f"{path.relative_to(ROOT)}:{line} cites {name}, which docs/protocol.md does not have"
                for path in files
                if path != Path(__file__) and not known.issuperset(cited(path.read_text(encoding="utf-8")))
                for line, text in prose_of(path)
                for name in cited(text)
                if name not in known
            ]
        )

    def test_citations_are_found(self) -> None:
        assert cited("see Rule 25, and rules (3) and (17)") == ["rule-25", "rule-3", "rule-17"]
        assert cited("I3: it is never delivered twice") == ["i3"]
        assert cited("I am, and INFO 5 is a rule of thumb") == []

    def test_each_promise_and_rule_has_a_heading(self) -> None:
        wanted = {*(f"i{number}" for number in range(1, 17)), *(f"rule-{number}" for number in range(1, 45))}
        assert wanted <= anchors("docs/protocol.md")


class TestMessages:
    def test_the_table_of_messages_is_that_of_the_code(self) -> None:
        rows = [
            f"| {number} | `{name}` | `{' '.join(shape.fields)}` | {'no' if number in AT_ONCE else 'yes'} |"
            for number, (name, shape) in KINDS.items()
        ]
        none_of([f"docs/protocol.md wants a row: {row}" for row in rows if row not in page("docs/protocol.md")])

    def test_there_are_no_other_rows(self) -> None:
        rows = re.findall(r"^\| ([0-9]+) \| `[A-Z]+`", page("docs/protocol.md"), re.MULTILINE)
        assert list(map(int, rows)) == list(KINDS)


class TestVersions:
    def test_the_table_of_capabilities_is_that_of_the_code(self) -> None:
        rows = re.findall(r"^\| `(\w+)` \| ([0-9]+) \| (?:`([\w` ]+)` )?\|", page("docs/protocol.md"), re.MULTILINE)
        wanted = [
            (name, str(bit), " ".join(KINDS[kind][0] for kind, needs in NEEDS.items() if needs == bit))
            for bit, (name, _) in CAPABILITIES.items()
        ]
        assert [row for row in rows if row[0].islower()] == wanted

    def test_the_table_of_the_handshake_has_its_payloads(self) -> None:
        rows = re.findall(r"^\| `([A-Z]+)` \| ([0-9]+) \| (?:dialer|acceptor)", page("docs/protocol.md"), re.MULTILINE)
        names = ("HELLO", "CHALLENGE", "PROOF", "WELCOME", "REFUSAL")
        assert rows == [(name, str(getattr(handshake, name))) for name in names]
        assert f"The version of the bus is {handshake.VERSION}." in page("docs/protocol.md")


class TestJobSpec:
    def test_the_table_of_rows_is_that_of_the_code(self) -> None:
        found = re.findall(
            r"^\| ([0-9]+) \| `(\w+)` \| (.*?) \| ([0-9]+) \| ([0-9]+) \| ", page("docs/protocol.md"), re.MULTILINE
        )
        rows = [
            [str(one) for one in (row.number, row.name, row.default, row.least, row.most)] for row in TABLE.values()
        ]
        assert list(map(list, found)) == rows
        protocol = " ".join(page("docs/protocol.md").split())
        assert f"of more than {ENCODED_MOST} bytes, with more than {ROWS_MOST} rows," in protocol
        assert f"{NEWER_MOST} of them with {NEWER_BYTES} bytes in a spec, and {extra.NEWER_MOST} with" in protocol
        assert f"{extra.NEWER_BYTES} bytes in the extra" in protocol
        assert f"its length and {VALUE_BYTES} bytes more" in protocol


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


class TestCommands:
    def test_the_page_is_what_the_table_says(self) -> None:
        text = page("docs/commands.md")
        assert renewed(text) == text, "write it anew: python -m tests.support.pages"

    def test_there_are_no_other_commands(self) -> None:
        marked = re.findall(r"^<!-- command (\S+) -->$", page("docs/commands.md"), re.MULTILINE)
        assert sorted(marked) == sorted(row.name.decode().upper() for row in ROWS)

    def test_a_new_command_comes_to_its_group(self) -> None:
        text = page("docs/commands.md")
        at = text.index("### QLEN")
        without = text[:at] + text[text.index("### QPEEK") :]
        again = renewed(without)
        assert again.index("## Queues") < again.index("### QLEN") < again.index("## Connection")


class TestInfo:
    def test_each_field_is_explained(self) -> None:
        """Fields are found where they are made: as the first of a pair, or as a key of what the host tells."""
        made = re.findall(r'^ +\("([a-z_]+)", ', page("disque/core/commands/info.py"), re.MULTILINE)
        made += re.findall(r'"((?:aof|loading)[a-z_]*)": ', page("disque/server/persistence.py"))
        assert {"used_memory", "registered_jobs", "aof_enabled"} <= set(made)
        explained = set(re.findall(r"`([a-z_]+)`", page("docs/info.md")))
        none_of([f"docs/info.md wants {field}" for field in made if field not in explained])


def test_the_site_can_be_built(tmp_path: Path) -> None:
    """Without a warning: pages, links and anchors are all there."""
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    loaded = re.compile(r'<(?:script|link|img)[^>]+(?:src|href)="(?:https?:)?//')
    none_of([path.name for path in (tmp_path / "site").rglob("*.html") if loaded.search(path.read_text("utf-8"))])
