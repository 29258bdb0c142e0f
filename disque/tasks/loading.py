"""Finds an app by its name: "module:name"."""

import importlib
import sys
from pathlib import Path

from disque.tasks.app import App


class AppNotFoundError(Exception):
    """There is no app of this name; the text says why."""


def load_app(place: str) -> App:
    """Import the app at ``place``: "module:name", or "module" if it is called ``app``. Raises AppNotFoundError.

    Modules are looked for in the current folder, too.
    """
    name, _, path = place.partition(":")
    if not name or name.startswith("."):
        raise AppNotFoundError(f"{place!r} begins with no name of a module; write module:name, such as shop:app")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            hint = f"; a module is named without .py: {name.removesuffix('.py')}" if name.endswith(".py") else ""
            raise AppNotFoundError(f"there is no module {name!r} in {here} or where Python looks{hint}") from error
        raise
    apps = [each for each, value in vars(found).items() if isinstance(value, App)]
    for part in (path or "app").split("."):
        found = getattr(found, part, None)  # type: ignore[assignment]  # from module to app
    if not isinstance(found, App):
        known = ", ".join(f"{name}:{each}" for each in apps) or "there is none in this module"
        raise AppNotFoundError(f"{place!r} is no App; write module:name: {known}")
    return found
