"""Copies on other nodes: placing them, keeping them, who may queue, and the end that all must hear of."""
