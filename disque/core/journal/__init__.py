"""The journal: what its records mean, how they become bytes, how they are replayed and compacted."""
