from pathlib import Path

import pytest

from tests.scenarios.runner import Scenario, rewrite, scenario_files


@pytest.mark.parametrize("path", scenario_files(), ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    """Each file says what it promises in its first line; what happens must be what stands there."""
    text = path.read_text()
    assert text.startswith("# ")
    assert Scenario().play(text) == text


def test_rewriting_fills_in_what_happens(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_text("# A node answers.\n\nnode 1: PING\n    1 main> +WRONG\n")
    rewrite([path])
    assert path.read_text() == "# A node answers.\n\nnode 1: PING\n    1 main> +PONG\n"
    assert Scenario().play(path.read_text()) == path.read_text()
