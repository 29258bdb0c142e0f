"""Text of others on a terminal: names of queues, and errors of jobs, may hold anything."""


def printable(text: str) -> str:
    """What a terminal would act on, such as an escape sequence, is shown instead."""
    return "".join([one if one.isprintable() else one.encode("unicode_escape").decode() for one in text])
