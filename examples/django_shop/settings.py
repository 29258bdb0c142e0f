"""Settings: what TASKS needs, and nothing else."""

import os

import django

SECRET_KEY = "only for the example"  # noqa: S105 - it is none
USE_TZ = True
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
INSTALLED_APPS = ["disque.django"]
if django.VERSION < (6,):
    INSTALLED_APPS.append("django_tasks")  # what Django 6 has itself

TASKS = {
    "default": {
        "BACKEND": "disque.django.DisqueBackend",
        "QUEUES": ["default", "mails"],
        "OPTIONS": {
            "URL": os.environ.get("DISQUE", "disque://127.0.0.1:7711"),
            "TRIES": 3,
            "BACKOFF": "exponential:0.1:60",
        },
    }
}
