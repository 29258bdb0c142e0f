"""Found by Spark, which imports all modules of such a name to register their `DefaultSource`.

If one of them fails, none is registered: so this one gives way when the package cannot be used here.
"""

try:
    from disque.spark.source import DisqueDataSource as DefaultSource
except Exception:  # noqa: BLE001 - whatever it is, other sources must not suffer from it
    __all__: list[str] = []
else:
    __all__ = ["DefaultSource"]
