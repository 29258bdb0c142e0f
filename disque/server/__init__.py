"""The shell around the core: sockets, journal files, signals and the one event loop."""
