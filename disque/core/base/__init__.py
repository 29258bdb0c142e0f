"""What everything stands on: timers, replies as bytes, errors, glob patterns, words, numbers."""
