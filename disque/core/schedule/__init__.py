"""Schedules: jobs that are added at certain times."""
