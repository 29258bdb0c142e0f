"""The process around the core: sockets, journal files, signals and the one event loop."""
