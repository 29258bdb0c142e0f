from typing import Any

import pytest

from disque.django.options import Options, faults


def test_names_are_in_capital_letters() -> None:
    options = Options.of({"URL": "disque://a,b", "TRIES": 5, "BACKOFF": "fixed:1", "PREFIX": "shop/"})
    assert (options.tries, options.backoff, options.prefix) == (5, "fixed:1", "shop/")
    assert options.config.nodes == (("a", 7711), ("b", 7711))


def test_nothing_need_be_said() -> None:
    assert Options.of({}) == Options()
    assert Options().config.nodes == (("127.0.0.1", 7711),)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"TRYS": 1}, "unknown option 'TRYS', did you mean TRIES?"),
        ({"tries": 1}, "unknown option 'tries', did you mean TRIES?"),
        ({"ZZZ": 1}, "unknown option 'ZZZ', there are URL, PREFIX, TRIES"),
        ({"TRIES": 0}, "TRIES must be a number from 1, not 0"),
        ({"RETAIN": "day"}, "RETAIN must be a number from 0, not 'day'"),
        ({"CRASHES": True}, "CRASHES must be a number from 1, not True"),
        ({"LEASE": 0}, "LEASE must be a number from 0.001, not 0"),
        ({"URL": "redis://x"}, "URL: Invalid URL: it must begin with disque://"),
        ({"URL": None}, "URL: "),
        ({"BACKOFF": "slowly"}, "BACKOFF: backoff must be kind:base"),
        ({"BACKOFF": 3}, "BACKOFF: backoff must be a Backoff or str"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, Any], fault: str) -> None:
    assert next(faults(given)).startswith(fault)
    with pytest.raises(ValueError, match=r".+"):
        Options.of(given)
