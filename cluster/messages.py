"""The kinds of messages between nodes. Their encoding and the bus come with the cluster; the numbers are for ever.

A message is a tuple of its kind and plain values.

======= ===================================================================================================
REPLJOB asks for a copy of a job: id, queue, body, repl, ms to live, ctime, delay and retry in s
GOTJOB  answers that the copy is there: id
ABORT   takes back a REPLJOB whose ADDJOB failed: id
======= ===================================================================================================
"""

from typing import Final

REPLJOB: Final = 4
GOTJOB: Final = 5
ABORT: Final = 16
