import inspect

from disque.client import AsyncDisque, Disque, requests


def test_methods_are_described_by_what_makes_their_requests() -> None:
    for kind in (Disque, AsyncDisque):
        assert kind.add.__name__ == "add"
        assert kind.add.__doc__ == requests.add.__doc__
        parameters = list(inspect.signature(kind.add).parameters)
        assert parameters[:3] == ["self", "queue", "body"]
        assert inspect.signature(kind.add).return_annotation is str
    assert list(inspect.signature(Disque().add).parameters)[:2] == ["queue", "body"]


def test_both_clients_have_the_same_methods() -> None:
    blocking = {name for name in vars(Disque) if not name.startswith("_")}
    asynchronous = {name for name in vars(AsyncDisque) if not name.startswith("_")}
    assert blocking - asynchronous == {"close", "redis"}
    cancelled = {"abandon", "perform", "begin_ending", "see_through"}
    assert asynchronous - blocking == {"aclose", *cancelled}, "what is asyncio may be given up halfway, or must not be"
