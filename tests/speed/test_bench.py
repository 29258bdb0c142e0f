"""What may be asked of `make bench`, and how it is written down."""

from pathlib import Path

import pytest

from tests.speed.bench import SCENES, command, forms, kept, measure, parser, samples
from tests.speed.book import Book, Cell
from tests.speed.scale import QUICK
from tests.speed.server import PLAIN
from tests.speed.setting import Setting


def test_all_scenes_unless_some_are_named() -> None:
    assert parser().parse_args([]).only == list(SCENES)
    assert parser().parse_args(["--only", "memory,depth"]).only == ["memory", "depth"]


def test_a_scene_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["--only", "depht"])
    assert "no scene is called depht" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ([], "make bench"),
        (["--quick"], "make bench QUICK=yes"),
        (["--jobs", "5", "--only", "flat"], 'make bench ARGS="--only flat --jobs 5"'),
        (["--quick", "--compiled", "/x/python"], "make bench QUICK=yes"),
    ],
)
def test_what_to_type_to_do_it_again(argv: list[str], text: str) -> None:
    assert command(parser().parse_args(argv)) == text


def test_without_a_compiled_form_the_plain_one_is_measured(tmp_path: Path) -> None:
    assert forms(None, tmp_path) == [PLAIN]
    assert forms(tmp_path / "no" / "python", tmp_path) == [PLAIN]


def test_a_scene_that_fails_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_run: Setting) -> None:
        raise RuntimeError("no such luck")

    done: list[str] = []
    monkeypatch.setitem(SCENES, "depth", fails)
    monkeypatch.setitem(SCENES, "flat", lambda run: done.append(run.best))
    run = Setting(tmp_path, QUICK, [PLAIN], [], tmp_path, 1000)
    measure(run, ["depth", "flat"])
    assert done == ["plain"]
    assert run.book.notes == ["Scene `depth` was not finished: RuntimeError."]
    assert "no such luck" in capsys.readouterr().out


def test_ctrl_c_ends_it_and_keeps_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_run: Setting) -> None:
        raise KeyboardInterrupt

    done: list[str] = []
    monkeypatch.setitem(SCENES, "driver", lambda _run: done.append("driver"))
    monkeypatch.setitem(SCENES, "depth", interrupted)
    monkeypatch.setitem(SCENES, "flat", lambda _run: done.append("flat"))
    run = Setting(tmp_path, QUICK, [PLAIN], [], tmp_path, 0)
    measure(run, ["driver", "depth", "flat"])
    assert done == ["driver"]
    assert run.book.notes == ["It was interrupted. Not or not all measured: depth, flat."]


def test_scenes_that_are_left_out_stay_as_they_were(tmp_path: Path) -> None:
    before, later = Book(), Book()
    facts = {"command": "make bench", "date": "today", "judged form": "plain", "meanwhile": "nothing else ran"}
    before.facts, later.facts = {**facts, "judged form": "compiled"}, {**facts, "command": "make bench ARGS"}
    for book, figure in ((before, 1.0), (later, 2.0)):
        book.add(Cell("tasks", "x", "done", 1), 0, rate=figure)
    later.notes = ["nothing is here", "it was interrupted"]
    before.add(Cell("memory", "x", "queued", 1), 0, bytes=3.0)
    chosen = parser().parse_args(["--only", "tasks", "--out", str(tmp_path)])
    assert kept(later, chosen, []) is later, "nothing was measured before"
    samples(tmp_path).parent.mkdir(parents=True)
    for _ in range(2):
        samples(tmp_path).write_text(before.dumps())
        before = kept(later, chosen, ["nothing is here"])
        assert [(one.cell.scene, list(one.values.values())) for one in before.samples] == [
            ("memory", [3.0]), ("tasks", [2.0])
        ]  # fmt: skip
        assert before.facts["judged form"] == "compiled"
        said = "Measured later: tasks, by `make bench ARGS` on today, in the plain form; nothing else ran."
        assert before.notes == [said, "it was interrupted"]
    assert kept(later, parser().parse_args(["--out", str(tmp_path)]), []) is later, "all was measured"


def test_the_best_form_comes_first_and_only_servers_that_are_here(tmp_path: Path) -> None:
    compiled = PLAIN._replace(name="compiled")
    run = Setting(tmp_path, QUICK, [PLAIN, compiled], ["redis"], tmp_path, 1000)
    assert run.best == "compiled"
    assert run.names == ["compiled", "plain", "redis"]
