"""The behaviour of a node as one state machine without input or output."""
