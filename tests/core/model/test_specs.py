from disque.core.jobs import sessions
from disque.core.model.spec import JobSpec
from disque.core.model.specs import NAME_BYTES, NAMES_MOST, Specs
from tests.core.support import Bench


def spec_of(bench: Bench, job_id: bytes) -> JobSpec:
    """What a job shares with others."""
    job = bench.node.find(job_id)
    assert job is not None
    return job.spec


def test_jobs_that_wait_for_a_queue_which_is_not_there_share_their_terms() -> None:
    bench = Bench()
    client = bench.client()
    ids = [client.add("q" * 20, "b", "DELAY", 100) for _ in range(3)]
    assert not bench.node.queues
    assert len({id(spec_of(bench, job_id)) for job_id in ids}) == 1


def test_a_queue_that_comes_into_being_goes_on_with_the_terms_of_the_jobs_that_waited_for_it() -> None:
    bench = Bench()
    client = bench.client()
    waiting = spec_of(bench, client.add("q", "b", "DELAY", 100))
    first = spec_of(bench, client.add("q", "b"))
    assert first is waiting
    assert bench.node.queues[b"q"].name is waiting.queue
    assert spec_of(bench, client.add("q", "b")) is first


def test_a_queue_that_was_waited_for_shares_terms_among_its_jobs() -> None:
    bench = Bench()
    client = bench.client()
    bench.node.queue(b"q", bench.now_ms)
    ids = [client.add("q", "b", "RETRY", retry) for retry in (5, 7, 5, 7)]
    found = [spec_of(bench, job_id) for job_id in ids]
    assert found[0] is found[2] is not found[1] is found[3]
    assert [one.retry for one in found] == [5, 7, 5, 7]
    assert found[0].queue is bench.node.queues[b"q"].name


def test_names_that_are_remembered_are_bounded() -> None:
    specs = Specs({})
    for number in range(NAMES_MOST + 10):
        specs.find(b"%d" % number, 1, 1, 1)
    assert len(specs.absent) <= NAMES_MOST
    long = b"n" * (NAME_BYTES + 1)
    assert specs.find(long, 1, 1, 1).queue is long
    assert long not in specs.absent


def test_after_everything_was_forgotten_the_jobs_of_a_queue_share_their_terms_again() -> None:
    bench = Bench()
    client = bench.client()
    client.add("q", "b")
    sessions.forget_everything(bench.node)
    assert bench.node.specs.of(b"q") is None
    found = [spec_of(bench, client.add("q", "b")) for _ in range(2)]
    assert found[0] is found[1]
    assert found[0].figures.added == 2
    assert bench.node.specs.of(b"q") is bench.node.queues[b"q"].specs
