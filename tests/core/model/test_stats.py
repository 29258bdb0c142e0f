from disque.core.model.stats import Stats


def test_a_reset_begins_again_but_for_the_time_of_the_start() -> None:
    stats = Stats(1234)
    stats.commands = stats.connections = stats.rejected = stats.net_in = stats.net_out = 7
    stats.reset()
    assert (stats.commands, stats.connections, stats.rejected, stats.net_in, stats.net_out) == (0, 0, 0, 0, 0)
    assert stats.started_ms == 1234
