"""Checks that the required packages are installed, before they are imported: the message says how to get them."""

import sys
from importlib.util import find_spec
from typing import Final

#: By the names of their modules.
PACKAGES: Final = {"pyspark": "PySpark", "redis": "redis-py", "pyarrow": "PyArrow", "numpy": "NumPy"}
#: What a process needs that talks to nodes or makes rows.
TO_WORK: Final = ("redis", "pyarrow", "numpy")


def need(*modules: str) -> None:
    """Raise ImportError that names what is missing, and the Python where it is: workers may have another one."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        names = " and ".join(PACKAGES[module] for module in missing)
        text = f"the data source needs {names}: pip install 'disque-server[spark]' for {sys.executable}"
        raise ImportError(text, name=missing[0])
