"""Plain data that everybody points at: jobs, queues, sessions, other nodes, keys, acknowledgements."""
