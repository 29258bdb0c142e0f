"""The application that brings `manage.py disque_worker`."""

from django.apps import AppConfig


class DisqueConfig(AppConfig):
    """Its name is short, since there is one."""

    name = "disque.django"
    label = "disque"
