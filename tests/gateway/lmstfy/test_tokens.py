"""Tokens in a file that gateways share."""

import asyncio
import stat
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from disque.gateway.lmstfy.tokens import FRESH_S, BrokenError, FileTokens, Known, Limit

LIMIT = Limit(10, 20, 1)
T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


class Now:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_a_token_is_for_its_namespace() -> None:
    tokens = FileTokens()
    assert run(tokens.add("ns", "t", "what for"))
    assert not run(tokens.add("ns", "t", "again"))
    assert run(tokens.find("ns", "t")) == Known("what for")
    assert run(tokens.find("other", "t")) is None
    run(tokens.remove("ns", "t"))
    run(tokens.remove("ns", "t"))
    assert run(tokens.find("ns", "t")) is None
    assert run(tokens.of("ns")) == {}


def test_limits_belong_to_tokens(tmp_path: Path) -> None:
    tokens = FileTokens(tmp_path / "tokens")
    run(tokens.limit("ns", "t", LIMIT))
    assert run(tokens.limits()) == [], "there is no such token"
    run(tokens.add("ns", "t", "x"))
    run(tokens.limit("ns", "t", LIMIT))
    assert run(FileTokens(tmp_path / "tokens").limits()) == [("ns", "t", LIMIT)]
    run(tokens.limit("ns", "t", None))
    assert run(FileTokens(tmp_path / "tokens").find("ns", "t")) == Known("x")


def test_they_survive_a_start_and_nobody_else_can_read_them(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    run(FileTokens(path).add("ns", "t", "\u00e9 <x>"))
    assert run(FileTokens(path).of("ns")) == {"t": Known("\u00e9 <x>")}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_another_gateway_has_changed_is_known_within_a_second(tmp_path: Path) -> None:
    now = Now()
    path = tmp_path / "tokens"
    mine, other = FileTokens(path, now), FileTokens(path, now)
    assert run(mine.find("ns", "t")) is None
    run(other.add("ns", "t", "x"))
    assert run(mine.find("ns", "t")) is None, "it was looked at just now"
    now.seconds += FRESH_S
    assert run(mine.find("ns", "t")) == Known("x")
    run(mine.add("ns", "second", "y"))
    run(other.add("ns", "third", "z"))
    assert set(run(FileTokens(path).of("ns"))) == {"t", "second", "third"}, "nothing that the other did is lost"
    path.unlink()
    now.seconds += FRESH_S
    assert run(mine.find("ns", "t")) is None


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"ns": 1}', '{"ns": {"t": {}}}', '{"ns": {"t": {"description": "x", "limit": {"a": 1}}}}'],
)
def test_a_file_that_holds_no_tokens_is_named_and_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(text)
    tokens = FileTokens(path)
    with pytest.raises(BrokenError, match="holds no tokens"):
        run(tokens.find("ns", "t"))
    with pytest.raises(BrokenError, match="holds no tokens"):
        run(tokens.add("ns", "t", "x"))
    assert path.read_text() == text


def test_what_cannot_be_written_is_not_known_afterwards(tmp_path: Path) -> None:
    tokens = FileTokens(tmp_path / "nowhere" / "tokens")
    with pytest.raises(BrokenError, match="cannot be written"):
        run(tokens.add("ns", "t", "x"))
    assert run(tokens.find("ns", "t")) is None
