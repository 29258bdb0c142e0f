"""The command line of `disque worker`."""

import argparse
import os

import pytest

from disque.tasks.command import main, parser, queues, settings_of, words_of_one
from disque.tasks.supervisor import NOT_BEGUN, PARENT


def test_options() -> None:
    settings = settings_of(parser().parse_args(["shop:app", "--queues", "mail:3,default", "--strict", "--grace", "5"]))
    assert settings.queues == {"mail": 3, "default": 1}
    assert (settings.strict, settings.grace_s, settings.concurrency, settings.place) == (True, 5.0, 100, "shop:app")


def test_queues_with_colons_in_their_names() -> None:
    assert queues("shop:mail:3,a:b") == {"shop:mail": 3, "a:b": 1}
    for wrong in ("", "a:0", "a,,b"):
        with pytest.raises(argparse.ArgumentTypeError, match="is no queue with a weight"):
            queues(wrong)
    for wrong in ("mail:-1", "mail:+2", "a,orders:dead:-3"):
        with pytest.raises(argparse.ArgumentTypeError, match="a weight is a whole number from 1"):
            queues(wrong)
    assert queues("mail:x,orders:dead,gpt:3.5,a:-b") == {"mail:x": 1, "orders:dead": 1, "gpt:3.5": 1, "a:-b": 1}


def test_the_command_of_one_process_of_several() -> None:
    words = ["shop:app", "--processes", "4", "--health", "9000", "--reload", "--strict", "--health=5"]
    assert words_of_one(words) == ["shop:app", "--strict"]


def test_an_app_that_is_not_there(caplog: pytest.LogCaptureFixture) -> None:
    assert main(["nowhere:app"]) == 1
    assert "there is no module 'nowhere'" in caplog.text


def test_a_supervisor_hears_that_it_is_in_vain_to_start_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PARENT, str(os.getppid()))
    assert main(["nowhere:app"]) == NOT_BEGUN


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["a", "--concurrency", "0"],
        ["a", "--what"],
        ["a", "--process", "2"],  # with whole names only can a process of several be told not to be several itself
        ["a", "--rel"],
        ["a", "--queues", "x:0"],
        ["a", "--grace", "nan"],
        ["a", "--health", "65536"],
    ],
)
def test_what_makes_no_sense(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    assert "usage: disque worker" in capsys.readouterr().err
