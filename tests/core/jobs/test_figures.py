import pytest

from disque.core.jobs import figures
from tests.core.support import Bench


@pytest.mark.parametrize(("word", "number"), [(b"0", 0), (b"7", 7), (b"9" * 18, 10**18 - 1)])
def test_numbers_of_other_nodes(word: bytes, number: int) -> None:
    assert figures.number(word) == number


@pytest.mark.parametrize("word", [b"", b"-1", b"+1", b"x", b"1 ", b"1.5", b"9" * 19, "²".encode()])
def test_what_is_no_number(word: bytes) -> None:
    assert figures.number(word) == -1


class TestLengths:
    def test_they_add_up(self) -> None:
        lengths = figures.Lengths(b"q")
        assert lengths.reply() == b":0\r\n"
        assert lengths.take(b"a", (b"7",))
        assert lengths.take(b"b", (b"5", b"of a later version"))
        assert not lengths.take(b"c", (b"-1",))
        assert lengths.reply() == b":12\r\n"

    def test_of_a_queue_that_is_not_there(self) -> None:
        bench = Bench()
        assert figures.length(bench.node, b"q") == 0
        assert bench.node.queues == {}
