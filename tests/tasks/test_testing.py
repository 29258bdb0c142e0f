"""Tests of tasks without a server: the same life of a job, with time that is moved by hand."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from disque.client import (
    DisqueError,
    Ended,
    MaxlenError,
    NewJob,
    NoReplError,
    OomError,
    PausedError,
    UnavailableError,
)
from disque.client.values import Duration
from disque.tasks import (
    App,
    Dead,
    Depends,
    Discard,
    Event,
    Go,
    Job,
    JobFailedError,
    NotDoneError,
    ResultLostError,
    Retry,
    Snooze,
    current,
    exponential,
)
from disque.tasks.handle import next_key
from disque.tasks.memory import Memory


def play(scene: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scene)


def test_a_job_runs_when_the_test_says_so() -> None:
    app = App()

    @app.task(retain=60)
    def add(a: int, b: int = 2) -> int:
        return a + b

    async def scene() -> None:
        async with app.testing() as t:
            job = await add.enqueue(1)
            assert [one.queue for one in t.jobs()] == ["default"]
            with pytest.raises(NotDoneError):
                await job.result(timeout=0)
            assert await t.run() == 1
            assert await job.result() == 3
            status = await job.status()
            assert status is not None
            assert status.status == "done"
            await t.advance(61)
            with pytest.raises(ResultLostError):
                await job.result()
            assert await job.status() is None
            assert add.enqueue_sync(5, b=6).id != job.id
            assert await t.run() == 1

    play(scene())


def test_time_is_moved_by_hand() -> None:
    app = App()
    times: list[float] = []

    async def scene() -> None:
        async with app.testing() as t:
            began = t.memory.now_s

            @app.task
            async def note(text: str) -> None:
                assert text
                times.append(t.memory.now_s - began)

            await note.using(delay=3600).enqueue("later")
            await note.using(at=datetime.fromtimestamp(began + 60, UTC)).enqueue("soon")
            await note.enqueue("now")
            assert await t.run() == 1
            assert await t.advance(59.5) == 0
            assert await t.advance(1) == 1
            assert await t.advance(7200) == 1

    play(scene())
    assert times[0] == 0
    assert abs(times[1] - 60) < 0.01
    assert times[2] == 3600


def test_failures_wait_and_die() -> None:
    app = App(tries=3, backoff=exponential(10, 15))
    seen: list[tuple[float, int]] = []

    async def scene() -> None:
        async with app.testing() as t:
            began = t.memory.now_s

            @app.task(queue="mail")
            async def fail() -> None:
                seen.append((t.memory.now_s - began, current().tries))
                raise ValueError(f"no {current().tries_left}, after {(current().error or '')[:14]}")

            job = await fail.enqueue()
            await t.advance(60)
            assert seen == [(0, 0), (10, 1), (25, 2)]
            with pytest.raises(JobFailedError, match="dead-letter: ValueError: no 1, after ValueError: no"):
                await job.result()
            [entry] = t.dead("mail")
            assert entry.queue == "mail:dead"
            assert "test_testing.py" in (entry.error or "")
            t.revive(entry)
            assert await t.run() == 1

    play(scene())


@pytest.mark.parametrize(
    ("verdict", "left"),
    [(Retry(5), "queued 1"), (Snooze(5), "queued 0"), (Dead("x"), "queued 1 dead"), (Discard(), "done 0")],
)
def test_verdicts(verdict: Exception, left: str) -> None:
    app = App(tries=3)

    @app.task
    def say() -> None:
        raise verdict

    async def scene() -> None:
        async with app.testing() as t:
            job = await say.enqueue()
            await t.run()
            entry = t.memory.entries[job.id]
            dead = " dead" if entry.origin else ""
            assert f"{entry.status} {entry.tries}{dead}" == left

    play(scene())


def test_unique_jobs_and_priorities() -> None:
    app = App()
    ran: list[int] = []

    @app.task(unique="{user}")
    def welcome(user: int, text: str = "") -> None:
        ran.append(user)
        assert text in {"", "a"}

    async def scene() -> None:
        async with app.testing() as t:
            first = await welcome.enqueue(7, "a")
            assert await welcome.enqueue(7, "b") == first
            assert await welcome.using(priority=9).enqueue(8) != first
            await t.run()
            assert ran == [8, 7]
            again = await welcome.using(unique_for=60).enqueue(7)
            assert again != first
            await t.run()
            assert await welcome.enqueue(7) == again
            await t.advance(60)
            assert await welcome.enqueue(7) != again
            assert hash(again) != hash(first)

    play(scene())


def test_the_result_of_a_chain_whose_first_job_is_forgotten_needs_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App()

    @app.task
    def first(number: int) -> int:
        if number == 0:
            raise Discard
        return number

    @app.task(retain=60)
    def double(number: int) -> int:
        return 2 * number

    async def scene() -> None:
        async with app.testing() as t:
            job = await first.bind(2).then(double).enqueue()
            await t.run()
            known = t.memory.wait

            async def wait(ids: Sequence[str], within: Duration | None) -> list[Ended | None]:
                """As nodes do that have no second to be sure that nobody knows a job."""
                return [None if one == job.id else (await known([one], within))[0] for one in ids]

            monkeypatch.setattr(t.memory, "wait", wait)
            assert await job.result(timeout=0.5) == 4
            discarded = await first.using(retain=60).bind(0).then(double).enqueue()
            await t.run()
            with pytest.raises(ResultLostError, match="is done: its chain ended here by Discard, or"):
                await discarded.result()

    play(scene())


def test_chains_go_on_with_the_result_and_once() -> None:
    app = App()
    ran: list[str] = []

    @app.task(retain=60)
    def first(text: str) -> str:
        ran.append(text)
        return text + "1"

    @app.task(queue="second", tries=2)
    async def second(before: str, text: str) -> list[str]:
        ran.append(before + text)
        return [before, text]

    @app.task
    def last(found: list[str]) -> None:
        ran.append("/".join(found))

    @app.task(retain=60)
    def other() -> int:
        ran.append("other")
        return 5

    async def scene() -> None:
        async with app.testing() as t:
            chain = first.bind("a").then(second.using(delay=10), "b").then(last).then_run(other.bind())
            job = await chain.enqueue()
            assert await job.next_id() is None
            await t.run()
            assert ran == ["a"]
            with pytest.raises(NotDoneError):
                await job.result()
            following = await job.next_id()
            assert following is not None
            assert t.memory.entries[following].queue == "second"
            assert t.memory.entries[following].job.tries == 2
            await t.advance(10)
            assert ran == ["a", "a1b", "a1/b", "other"]
            assert await job.result() == 5
            failing = await second.using(delay=0).bind("x", 5).then(last).enqueue()  # type: ignore[arg-type]  # fails
            await t.run()
            with pytest.raises(JobFailedError, match="text: str is expected"):
                await failing.result()

    play(scene())


@pytest.mark.parametrize("after_s", [0, 10])
def test_cancel_ends_what_runs_now_of_a_chain(after_s: int) -> None:
    app = App()
    ran: list[str] = []

    @app.task
    def step(name: str) -> None:
        ran.append(name)

    async def scene() -> None:
        async with app.testing() as t:
            chain = step.bind("a").then_run(step.using(delay=10).bind("b")).then_run(step.using(delay=10).bind("c"))
            job = await chain.enqueue()
            await t.run()
            await t.advance(after_s)
            before = list(ran)
            assert await job.cancel()
            assert not await job.cancel()
            await t.advance(30)
            assert ran == before

    play(scene())


@pytest.mark.parametrize("adding", ["b", "c"])
@pytest.mark.parametrize("kind", ["chain", "group"])
def test_nothing_comes_after_what_is_cancelled_while_the_next_job_is_being_added(kind: str, adding: str) -> None:
    app = App()
    ran: list[str] = []
    handles: list[Job[str]] = []
    said: list[bool] = []

    @app.task(retain=60)
    def step(_before: object, name: str) -> str:
        ran.append(name)
        return name

    @app.middleware
    async def meanwhile(event: Event, go: Go) -> Any:
        if event.phase == "enqueue" and event.args[-1] == adding:
            said.append(await handles[0].cancel())
        return await go()

    async def scene() -> None:
        async with app.testing() as t:
            first = step.bind(None, "a")
            if kind == "chain":
                handles.append(await first.then(step, "b").then(step, "c").enqueue())
            else:
                handles.append(await app.group([first]).then(step, "b").then(step, "c").enqueue())
            await t.run()
            await t.advance(60)
            assert said == [True]
            assert ran == ["a", "b"][: 1 + (adding == "c")]
            assert t.jobs() == t.dead() == []
            with pytest.raises(JobFailedError, match="is cancelled"):
                await handles[0].result()
            assert not await handles[0].cancel()

    play(scene())


def test_a_cancel_that_could_not_keep_the_next_job_away_can_be_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App()
    ran: list[str] = []

    @app.task
    def step(name: str) -> None:
        ran.append(name)

    async def scene() -> None:
        async with app.testing() as t:

            async def away(_job: NewJob) -> str:
                raise UnavailableError("no node could be used")

            job = await step.bind("a").then_run(step.bind("b")).enqueue()
            held = t.memory.take()
            assert held is not None
            with monkeypatch.context() as patched:
                patched.setattr(t.memory, "add", away)
                with pytest.raises(UnavailableError):
                    await job.cancel()
            assert await job.cancel()
            assert not await job.cancel()
            assert await t.memory.add(NewJob("default", b"", unique=next_key(job.id))) == await job.next_id()
            await t.run()
            assert ran == []

    play(scene())


def test_a_key_that_is_kept_by_a_job_that_cannot_be_added_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App()
    asked: list[NewJob] = []

    @app.task
    def step() -> None: ...

    async def scene() -> None:
        async with app.testing() as t:
            add = t.memory.add

            async def kept(job: NewJob) -> str:
                asked.append(job)
                if len(asked) < 3:
                    raise NoReplError("NOREPL")
                return await add(job)

            job = await step.bind().then_run(step.bind()).enqueue()
            monkeypatch.setattr(t.memory, "add", kept)
            assert await job.cancel()
            assert [one.unique for one in asked] == [next_key(job.id)] * 3

    play(scene())


@pytest.mark.parametrize("error", [PausedError, OomError, MaxlenError])
def test_a_chain_can_be_cancelled_while_the_queue_of_its_next_job_takes_none(
    error: type[DisqueError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not taken of who cancels is not taken of a worker either, and a worker asks before it tries again."""
    app = App()

    @app.task
    def step() -> None: ...

    async def scene() -> None:
        async with app.testing() as t:

            async def full(_job: NewJob) -> str:
                raise error("no")

            job = await step.bind().then_run(step.bind()).enqueue()
            monkeypatch.setattr(t.memory, "add", full)
            assert [await job.cancel(), await job.cancel()] == [True, False]

    play(scene())


def test_nothing_comes_after_a_job_that_was_cancelled_by_a_call_whose_answer_was_lost() -> None:
    """CANCEL is sent again, and then counts nothing. So it is when the job was cancelled by its ID."""
    app = App()

    @app.task(retain=60)
    def step() -> None: ...

    async def scene() -> None:
        async with app.testing() as t:
            job = await step.bind().then_run(step.bind()).enqueue()
            assert await t.memory.cancel(job.id) == 1
            assert [await job.cancel(), await job.cancel()] == [True, False], "there was something that would have come"
            assert await t.memory.add(NewJob("default", b"", unique=next_key(job.id))) == await job.next_id()
            assert t.jobs() == []

    play(scene())


def test_a_chain_that_has_ended_already_is_not_cut() -> None:
    """Nor is one whose job no node knows that can be reached: it may be back."""
    app = App()

    @app.task
    def step() -> None:
        raise Discard

    async def scene() -> None:
        async with app.testing() as t:
            job = await step.bind().then_run(step.bind()).enqueue()
            await t.run()
            assert not await job.cancel()
            assert await job.next_id() is None

    play(scene())


def test_batches_gather() -> None:
    app = App()
    calls: list[list[int]] = []

    @app.batch(queue="clicks", max_size=3, max_wait=2, group_by=lambda number: number % 2)
    async def clicks(numbers: list[int]) -> None:
        calls.append(numbers)

    async def scene() -> None:
        async with app.testing() as t:
            for number in range(8):
                await clicks.enqueue(number)
            assert await t.run() == 2
            assert calls == [[0, 2, 4], [1, 3, 5]]
            assert await t.advance(2) == 2
            assert calls[2:] == [[6], [7]]
            assert t.jobs() == []
            await clicks([5])
            assert calls[-1] == [5]

    play(scene())


def test_what_cannot_be_run_is_a_dead_letter_with_a_reason() -> None:
    app, other = App(), App()

    @other.task(name="ghost")
    def ghost() -> None: ...

    @other.task(name="add")
    def add_texts(a: str) -> None: ...

    @app.task(name="add")
    def add(a: int) -> None: ...

    @app.task(retain=60)
    def odd() -> object:
        return object()

    async def scene() -> None:
        async with app.testing() as t:
            other.instead = t.memory
            await ghost.enqueue()
            await add_texts.enqueue("x")
            await odd.enqueue()
            await add.using(deadline=t.memory.now_s - 1).enqueue(1)
            await t.run()
            errors = [entry.error or "" for entry in t.dead()]
            assert errors[0] == "MessageError: this worker has no task 'ghost'; it has: add, odd"
            assert "a: int is expected, not str 'x'" in errors[1]
            assert "the function has ended, but EncodeError: builtins.object cannot be sent" in errors[2]
            assert "its deadline was over" in errors[3]

    play(scene())


def test_cancel_and_lifespan_and_what_is_provided() -> None:
    app = App()
    log: list[str] = []

    @app.lifespan
    async def life(_: App) -> AsyncIterator[None]:
        log.append("begin")
        yield
        log.append("end")

    async def open_db() -> AsyncIterator[str]:
        log.append("open")
        yield "db"
        log.append("close")

    @app.task
    async def save(number: int, *, db: str = Depends(open_db)) -> None:
        log.append(f"{number} in {db}")

    async def scene() -> None:
        async with app.testing() as t:
            await save.enqueue(1)
            job = await save.enqueue(2)
            assert await job.cancel()
            assert not await job.cancel()
            await t.run()
            with pytest.raises(ResultLostError):
                await job.result()

    play(scene())
    assert log == ["begin", "open", "1 in db", "close", "end"]


def test_jobs_without_end_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("disque.tasks.testing.RUNS_MOST", 10)
    app = App()

    @app.task
    async def again() -> None:
        await again.enqueue()

    async def scene() -> None:
        async with app.testing() as t:
            await again.enqueue()
            with pytest.raises(RuntimeError, match="without end"):
                await t.run()

    play(scene())


def test_the_result_of_a_call_that_sends_none(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App()

    @app.task
    async def number() -> int:
        return 5

    @app.task
    async def nothing() -> None: ...

    @app.batch()
    async def many(items: list[int]) -> None: ...

    class Waited(Memory):
        """Jobs that end while somebody waits for them."""

        async def wait(self, ids: Sequence[str], timeout: Any) -> list[Ended | None]:  # noqa: ASYNC109 - see `Door`
            del timeout
            return [Ended(one, "done", None, None) for one in ids]

    async def scene() -> None:
        monkeypatch.setattr(app, "instead", Waited())
        job = await number.enqueue()
        with pytest.raises(ResultLostError, match="is done: what it has returned was not sent"):
            await job.result(5)
        await (await nothing.enqueue()).result(5)
        await (await many.enqueue(1)).result(5)
        assert (await (await number.using(retain=60).enqueue()).result(5)) is None, "it has returned None, or discarded"

    play(scene())
