"""The dashboard: its pages, and what they can do. `disque.gateway.pages` is their frame."""
