"""What redis-benchmark prints is read right."""

from tests.speed.redis_benchmark import rate_in

REPORT = """"test","rps","avg_latency_ms","min_latency_ms"
"LPUSH q xx","29880.48","0.825","0.100"
"""


def test_the_rate_is_in_the_last_line() -> None:
    assert rate_in(REPORT) == 29880.48


def test_a_command_may_have_commas() -> None:
    assert rate_in('"SET a,b ""c""","100.50","1"\n') == 100.5
