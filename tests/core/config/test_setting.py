from disque.core.config.kinds import OneOf, Whole
from disque.core.config.setting import NETWORK, SECTIONS, TLS, Setting

PORT = Setting("port", Whole(0, 65535), 7711, NETWORK, "Where.")


def test_a_row_says_how_its_line_looks() -> None:
    assert PORT.usage() == f"Expected: port <{PORT.kind.expected}>"


def test_a_row_says_what_it_takes_its_default_and_whether_it_can_change() -> None:
    assert PORT.facts() == f"Takes {PORT.kind.expected}. Default: 7711."
    assert PORT._replace(mutable=True).facts().endswith("Default: 7711. Changeable by CONFIG SET.")


def test_where_the_default_is_to_say_nothing_there_is_none() -> None:
    row = Setting("level", OneOf("a", "b"), "", TLS, "How much.", example="a")
    assert row.facts() == "Takes one of a, b. Default: none."


def test_a_row_is_shown_and_fixed_unless_it_says_otherwise() -> None:
    assert PORT.gettable
    assert not PORT.mutable


def test_sections_have_names_of_their_own() -> None:
    assert len(set(SECTIONS)) == len(SECTIONS)
