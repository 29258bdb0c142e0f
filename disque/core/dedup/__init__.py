"""UNIQUE keys: one job for one key of a queue."""
