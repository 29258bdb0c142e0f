"""Apps are found by name, and what is wrong with the name is said."""

import pytest

from disque.tasks.loading import AppNotFoundError, load_app


def test_found() -> None:
    from tests.tasks import shop_app  # noqa: PLC0415 - to compare

    assert load_app("tests.tasks.shop_app:app") is shop_app.app
    assert load_app("tests.tasks.shop_app") is shop_app.app


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("nowhere.at.all:app", "there is no module 'nowhere.at.all'"),
        ("nowhere.py:app", "a module is named without .py: nowhere$"),
        ("tests.tasks.shop_app:nobody", "is no App; write module:name: tests.tasks.shop_app:app$"),
        ("tests.tasks.shop_app:app.name", "is no App"),
        ("./shop.py", "begins with no name of a module; write module:name, such as shop:app$"),
        (".shop:app", "begins with no name of a module"),
        (":app", "begins with no name of a module"),
        ("", "begins with no name of a module"),
        ("json", "is no App; .* there is none in this module"),
    ],
)
def test_not_found(place: str, reason: str) -> None:
    with pytest.raises(AppNotFoundError, match=reason):
        load_app(place)
