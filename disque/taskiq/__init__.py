"""taskiq on Disque: broker, results, schedules.

from disque.taskiq import DisqueBroker, DisqueResultBackend

broker = DisqueBroker("disque://node-1,node-2").with_result_backend(DisqueResultBackend("disque://node-1,node-2"))
"""

try:
    import redis
    import taskiq
except ImportError as missing:
    needed = "the broker needs taskiq and redis-py: pip install 'disque-server[taskiq]'"
    raise ImportError(needed, name=missing.name) from missing

from disque.taskiq.broker import DisqueBroker
from disque.taskiq.results import DisqueResultBackend
from disque.taskiq.schedules import DisqueScheduleSource

__all__ = ["DisqueBroker", "DisqueResultBackend", "DisqueScheduleSource"]

del redis, taskiq  # they were only asked for
