"""The commands disque-server and disque."""
