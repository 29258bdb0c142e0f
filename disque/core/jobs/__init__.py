"""What happens to jobs at one node: they are added, delivered, queued again; queues and sessions come and go."""
