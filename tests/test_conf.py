"""conf/disque.conf is what the table of settings says."""

import re
from pathlib import Path

from disque.core.config.conffile import document, load
from disque.core.config.settings import SETTINGS, Config

TEXT = (Path(__file__).parent.parent / "conf" / "disque.conf").read_text(encoding="utf-8")


def read_nothing(path: str) -> str:
    raise AssertionError(path)


def test_the_file_is_the_document() -> None:
    assert document() == TEXT, "write it anew with the command in the docstring of disque/core/config/conffile.py"


def test_the_file_says_nothing_but_defaults() -> None:
    config = Config()
    load(TEXT, "disque.conf", config, read_nothing)
    assert config.changed() == {}


def test_every_setting_is_in_the_file_once() -> None:
    lines = re.findall(r"^#?([a-z-]+) .", TEXT, re.MULTILINE)
    assert sorted(lines) == sorted(["include", *(setting.name for setting in SETTINGS)])


def test_what_stands_there_as_a_comment_loads_too() -> None:
    config = Config()
    load(re.sub(r"^#(?=[a-z])", "", TEXT, flags=re.MULTILINE), "disque.conf", config, lambda _path: "")
    assert set(config.changed()) == {setting.name for setting in SETTINGS if setting.example}


def test_lines_are_short() -> None:
    assert max(map(len, TEXT.splitlines())) <= 100
