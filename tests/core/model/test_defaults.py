from hypothesis import given
from hypothesis import strategies as st

from disque.core.model.defaults import RESOLVED_MOST, Defaults, QueueDefaults

NAMES = st.sampled_from([b"*", b"a*", b"ab*", b"ac*", b"abc*", b"a", b"ab", b"abc", b"b"])
CHANGES = st.lists(st.tuples(NAMES, st.sampled_from([b"ttl", b"retry"]), st.booleans()), max_size=30)


@given(CHANGES, st.sampled_from([b"", b"a", b"ab", b"abc", b"abcd", b"b", b"x"]))
def test_the_name_comes_first_and_then_its_beginnings_the_longest_first(
    changes: list[tuple[bytes, bytes, bool]], queue: bytes
) -> None:
    defaults = Defaults()
    model: dict[bytes, set[bytes]] = {}
    for name, option, is_set in changes:
        if is_set:
            defaults.set(name, option, b"1")
            model.setdefault(name, set()).add(option)
        else:
            defaults.unset(name, option)
            model.get(name, set()).discard(option)
    model = {name: options for name, options in model.items() if options}
    meant = [name for name in model if name == queue or (name.endswith(b"*") and queue.startswith(name[:-1]))]
    meant.sort(key=lambda name: (name != queue, -len(name)))
    assert [name for name, _ in defaults.layers(queue)] == meant
    assert {name: set(words) for name, words in defaults.by_name.items()} == model
    assert sorted(defaults.index.look(0, 100)[1]) == sorted(model)


def test_what_was_looked_up_is_forgotten_when_there_is_much_of_it_or_something_changes() -> None:
    defaults = Defaults()
    for number in range(RESOLVED_MOST + 1):
        defaults.remember(b"%d" % number, QueueDefaults())
    assert len(defaults.resolved) == 1
    defaults.set(b"q", b"ttl", b"1")
    assert not defaults.resolved
