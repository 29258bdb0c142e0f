"""The HTTP API of lmstfy: its clients work unchanged."""
