"""lmstfy's metrics, as its dashboards know them."""

import pytest

from disque.gateway.lmstfy import metrics as module
from disque.gateway.lmstfy.admin import Admin
from disque.gateway.lmstfy.metrics import LmstfyMetrics
from disque.gateway.lmstfy.tokens import Limit
from tests.end_to_end.node import Node
from tests.gateway.conftest import MakeGateway
from tests.gateway.lmstfy.conftest import TOKEN, Door
from tests.gateway.support import Client


def test_what_passes_and_what_waits_is_counted(node: Node, make_gateway: MakeGateway) -> None:
    door = Door(make_gateway(metrics_compat=True))
    door.publish("ns/q?delay=0")
    door.publish("ns/q")
    door("PUT", "ns/q/bulk?delay=100", b"[1,2]")
    job = door.consume("ns/q,r")
    door("DELETE", f"ns/q/job/{job['job_id']}")
    door("GET", "ns/none")
    door.gateway.run(door.gateway.hub.tokens.limit("ns", TOKEN, Limit(0, 1, 3600)))
    for _ in range(2):
        door("PUT", "ns/q", b"x")
    text = door.gateway.ask("GET", "/metrics").text
    lines = set(text.splitlines())
    base = '{pool="default",namespace="ns",'
    assert lines >= {
        'infra_lmstfy_redis_publish_jobs{pool="default"} 5',
        'infra_lmstfy_redis_consume_jobs{pool="default"} 0',
        'infra_lmstfy_redis_consume_multi_jobs{pool="default"} 1',
        'infra_lmstfy_redis_timer_add_jobs{pool="default"} 3',
        'infra_lmstfy_redis_pool_delete_jobs{pool="default"} 1',
        f'infra_lmstfy_redis_publish_queue_jobs{base}queue="q"}} 5',
        f'infra_lmstfy_redis_consume_queue_jobs{base}queue="q"}} 1',
        f'infra_lmstfy_redis_job_elapsed_ms_count{base}queue="q"}} 1',
        f'infra_lmstfy_redis_job_ack_elapsed_ms_count{base}queue="q"}} 1',
        f'infra_lmstfy_redis_qps{{node="127.0.0.1:{node.port}",command="addjob",status="ok"}} 5',
        f'infra_lmstfy_redis_latency_count{{node="127.0.0.1:{node.port}",command="ackjob",status="ok"}} 1',
        'infra_lmstfy_redis_total_ttl_keys{pool="default"} 4',
        f'infra_lmstfy_redis_queue_sizes{base}queue="q"}} 2',
        f'infra_lmstfy_http_http_codes{base}api="/api/:namespace/:queue",method="GET",code="404"}} 1',
        f'infra_lmstfy_http_rate_limit{base}token="...{TOKEN[-4:]}",action="produce"}} 1',
    }
    assert TOKEN not in text
    assert "asynq_queue_size" in text
    admin = door.gateway.run(Client(Admin(door.gateway.hub)).ask("GET", "/metrics")).text
    assert 'infra_lmstfy_redis_publish_jobs{pool="default"} 5' in admin


def test_jobs_that_nobody_acknowledges_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONSUMED_MOST", 2)
    metrics = LmstfyMetrics(lambda: 100.0)
    for number in range(5):
        metrics.consumed("ns", "q", b"%d" % number, 3000)
    for number in range(5):
        metrics.acknowledged("ns", "q", b"%d" % number)
    metrics.acknowledged("ns", "q", None)
    text = metrics.text()
    assert 'job_ack_elapsed_ms_count{pool="default",namespace="ns",queue="q"} 2' in text
    assert 'job_ack_elapsed_ms_sum{pool="default",namespace="ns",queue="q"} 6000' in text
    assert 'pool_delete_jobs{pool="default"} 6' in text


def test_they_are_there_only_if_wanted(door: Door) -> None:
    door.publish()
    assert "lmstfy" not in door.gateway.ask("GET", "/metrics").text
