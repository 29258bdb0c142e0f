"""Metrics of nodes under the names of asynq's exporter."""

from disque.gateway.compat import asynq, samples, totals

TOLD = """\
# TYPE disque_queue_length gauge
disque_queue_length{node="a:1",queue="x\\"y"} 2
disque_queue_length{node="b:1",queue="x\\"y"} 3
disque_queue_length{node="b:1",queue="mails:dead"} 4
disque_queue_in_flight{node="a:1",queue="mails"} 1
disque_queue_oldest_seconds{node="a:1",queue="mails"} 1.5
disque_jobs_acked_total{node="a:1",queue="mails"} 10
disque_jobs_nacked_total{node="a:1",queue="mails"} 2
disque_queue_paused_out{node="a:1",queue="mails"} 1
disque_queue_paused_out{node="b:1",queue="mails"} 1
disque_memory_used_bytes{node="a:1"} 7
"""


def test_samples_are_summed_over_nodes() -> None:
    told = samples(TOLD)
    assert totals(told, "disque_queue_length") == {'x"y': 5.0, "mails:dead": 4.0}
    assert totals(told, "disque_memory_used_bytes") == {"": 7.0}


def test_names_and_states_are_asynqs() -> None:
    text = asynq(samples(TOLD), {"mails": 1234.4})
    for line in (
        'asynq_tasks_enqueued_total{queue="x\\"y",state="pending"} 5',
        'asynq_tasks_enqueued_total{queue="mails",state="active"} 1',
        'asynq_tasks_enqueued_total{queue="mails",state="archived"} 4',
        'asynq_queue_latency_seconds{queue="mails"} 1.5',
        'asynq_queue_memory_usage_approx_bytes{queue="mails"} 1234',
        'asynq_tasks_processed_total{queue="mails"} 12',
        'asynq_tasks_failed_total{queue="mails"} 2',
        'asynq_queue_paused_total{queue="mails"} 1',
    ):
        assert line in text.splitlines()
