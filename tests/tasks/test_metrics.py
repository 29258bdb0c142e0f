"""What a worker counts, in the text format."""

from disque.tasks.metrics import Metrics, escaped


def test_text() -> None:
    metrics = Metrics()
    metrics.fetched = 3
    metrics.began("q", 0.002)
    metrics.over("mail", "done", 0.02)
    metrics.over("mail", "done", 99999)
    metrics.over("mail", "dead", 0)
    lines = metrics.text({"disque_worker_running": ("Calls that run.", 5.0)}).splitlines()
    for line in (
        "disque_worker_fetched_total 3",
        'disque_worker_runs_total{task="mail",outcome="done"} 2',
        'disque_worker_run_seconds_bucket{task="mail",le="0.05"} 2',
        'disque_worker_run_seconds_bucket{task="mail",le="+Inf"} 3',
        'disque_worker_run_seconds_count{task="mail"} 3',
        'disque_worker_wait_seconds_bucket{queue="q",le="0.001"} 0',
        'disque_worker_wait_seconds_bucket{queue="q",le="0.005"} 1',
        "# TYPE disque_worker_running gauge",
        "disque_worker_running 5",
    ):
        assert line in lines
    assert escaped('a"b\\c\nd') == 'a\\"b\\\\c\\nd'
