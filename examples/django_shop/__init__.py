"""A small Django project whose tasks run on Disque."""
