"""The backend for Django's tasks.

TASKS = {
    "default": {
        "BACKEND": "disque.django.DisqueBackend",
        "OPTIONS": {"URL": "disque://node-1,node-2"},
    }
}
INSTALLED_APPS = [..., "disque.django"]
"""

try:
    import redis

    from disque.django import api
except ImportError as missing:
    needed = (
        "the backend needs redis-py, and Django 6 or Django 5.2 with django-tasks: pip install 'disque-server[django]'"
    )
    raise ImportError(needed, name=missing.name) from missing

from disque.django.backend import DisqueBackend

__all__ = ["DisqueBackend"]

del redis, api  # they were only asked for
