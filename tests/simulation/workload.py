"""What clients do: producers, consumers, and those who meddle with jobs and queues.

All know of all IDs that were ever answered or delivered, so that requests about a job reach nodes that hold it, nodes
that do not, and nodes that have just forgotten it.
"""

from math import ceil
from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulation.clients import Ask, Client, Leave, Story
from tests.simulation.ears import NEWS
from tests.simulation.history import Plan
from tests.simulation.options import REPAIR_NEVER_S
from tests.simulation.world import WALL_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.cluster import Cluster

#: IDs that meddlers pick from: the newest.
RECENT = 60
#: The queue of what schedules add, those that nobody changes once they are set, with their periods in s, and one that
#: is changed all the time.
TICKS = b"ticks"
STEADY = {b"steady 1": 1, b"steady 2": 2, b"steady 3": 3, b"steady 5": 5}
MOODY = b"moody"
MIXES = ((10, 1), (6, 3), (3, 6), (1, 1))


class Workload:
    """All clients of a run while it is under load."""

    def __init__(self, cluster: "Cluster") -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.options = cluster.world.options
        self.history = cluster.watch.history
        self.random = self.world.random("workload")
        self.queues = [b"q%d" % number for number in range(self.options.queues)]
        self.all_queues = [*self.queues, *[queue + b":dead" for queue in self.queues if self.options.tries]]
        #: Those in which jobs can be at the end: what was moved to a queue of dead letters may have died there.
        self.last_queues = [*self.all_queues, *[queue + b":dead" for queue in self.all_queues[len(self.queues) :]]]
        if self.options.cron:
            self.last_queues.append(TICKS)
        self.recent: list[bytes] = []
        self.clients: list[Client] = []
        self.number = 0
        #: For what came later, so that seeds stay about what they were.
        self.terms = self.world.random("terms")
        self.ends = self.world.random("ends")
        self.keeping = self.world.random("keeping")

    def begin(self) -> None:
        """Start the clients: at least one of each of the first two kinds."""
        stories = [producer, consumer, consumer, producer, meddler, consumer, producer]
        if self.options.eager:
            stories = [producer, waiter, waiter, waiter]
        for number in range(self.options.clients):
            story = stories[number] if number < 2 else self.random.choice(stories)
            client = Client(self.cluster, f"client {number}")
            self.clients.append(client)
            client.begin(story(self, client.random))
        if self.options.tries and not self.options.eager:
            client = Client(self.cluster, "sweeper")
            self.clients.append(client)
            client.begin(sweeper(self, client.random))
        if self.options.overflow and not self.options.eager:
            self._begin("steward", steward)
        if self.options.talk:
            self._begin("speaker", speaker)
        if self.options.ends and not self.options.eager:
            for number in range(2):
                client = Client(self.cluster, f"curious {number}")
                self.clients.append(client)
                client.begin(curious(self, client.random))
        if self.options.cron:
            self._begin_schedules()
        if self.options.users:
            self._begin_users()

    def _begin_users(self) -> None:
        """Somebody gives and takes rights, and others try what they may."""
        for number, story in enumerate((granter, restricted, restricted, restricted)):
            client = Client(self.cluster, f"of users {number}")
            self.clients.append(client)
            client.begin(story(self, self.world.random(f"users {number}")))

    def _begin_schedules(self) -> None:
        """Somebody sets schedules, and others take what comes of them."""
        for name in (*STEADY, MOODY):
            body = b"of " + name
            self.history.plans[body] = plan = Plan(body, TICKS)
            plan.retry = 5
        stories = [keeper(self), *[moody(self.world.random(f"moody {number}")) for number in range(2)]]
        stories += [taker(self.world.random(f"taker {number}")) for number in range(2)]
        for number, story in enumerate(stories):
            client = Client(self.cluster, f"of schedules {number}")
            self.clients.append(client)
            client.begin(story)

    def _begin(self, name: str, story: "Callable[[Workload, Random], Story]") -> None:
        client = Client(self.cluster, name)
        self.clients.append(client)
        client.begin(story(self, client.random))

    def end(self) -> None:
        """All of them hang up."""
        for client in self.clients:
            client.end()

    def errand(self, *requests: list[bytes]) -> None:
        """Have somebody send requests to any node, over a connection of his own."""
        self.number += 1
        client = Client(self.cluster, f"errand {self.number}")
        self.clients.append(client)
        client.begin(one_errand(list(requests)))

    def note(self, job_id: bytes) -> None:
        """An ID that somebody has seen."""
        self.recent.append(job_id)
        if len(self.recent) > RECENT:
            del self.recent[: RECENT // 2]

    # -- requests --------------------------------------------------------------------------------------------------

    def addjob(self, random: Random) -> list[bytes]:
        """An ADDJOB with some options."""
        self.number += 1
        plan = Plan(b"job %d" % self.number, random.choice(self.queues))
        if random.random() < 0.05:
            plan.body += b" " * random.choice((100, 5000))
        words = [b"ADDJOB", plan.queue, plan.body, b""]
        plan.timeout_ms = random.choice((0, 50, 500, 500, 2000, 5000))
        words[3] = b"%d" % plan.timeout_ms
        if self.options.eager:
            return self._long(plan, words)
        self._retry(plan, words, random)
        self._times(plan, words, random)
        self._terms(plan, words)
        if self.options.repair_s < REPAIR_NEVER_S and plan.retry and plan.ttl > 600 and not plan.delay:
            self._keep(plan, words)
        if self.options.tries and plan.retry:
            self._tries(plan, words, random)
        if self.options.ends and self.ends.random() < 0.5:
            plan.retain = self.ends.choice((2, 60, 600, 600))
            words += [b"RETAIN", b"%d" % plan.retain]
        if random.random() < 0.05:
            words += [b"MAXLEN", b"%d" % random.choice((1, 10, 100))]
        if random.random() < 0.15:
            plan.asynchronous = True
            words.append(b"ASYNC")
        elif self.options.unique and random.random() < 0.5:
            plan.key = b"k%d" % random.randint(0, 4)
            plan.window = random.choice((0, 0, 2, 10, 100) if not plan.tries else (2, 10, 100))
            words += [b"UNIQUE", plan.key, b"%d" % plan.window]
        self.history.plans[plan.body] = plan
        return words

    def addjob_late(self, queue: bytes, *, delay: int = 0) -> list[bytes]:
        """A job with one copy that nobody gets for some seconds."""
        self.number += 1
        plan = Plan(b"job %d" % self.number, queue)
        plan.retry, plan.delay, plan.timeout_ms = 5, delay, 1000
        self.history.plans[plan.body] = plan
        words = [b"ADDJOB", queue, plan.body, b"1000", b"RETRY", b"5", b"REPLICATE", b"1"]
        return [*words, b"DELAY", b"%d" % delay] if delay else words

    def _long(self, plan: Plan, words: list[bytes]) -> list[bytes]:
        """A job that nobody would get for a long time if it got lost on its way."""
        plan.retry, plan.repl = 300, min(2, len(self.cluster.machines))
        self.history.plans[plan.body] = plan
        return [*words, b"RETRY", b"300", b"REPLICATE", b"%d" % plan.repl]

    def _retry(self, plan: Plan, words: list[bytes], random: Random) -> None:
        """REPLICATE and RETRY, which hang together."""
        if random.random() < 0.25:
            plan.retry = 0
            words += [b"RETRY", b"0", b"REPLICATE", b"1"]
            return
        if random.random() < 0.8:
            plan.retry = random.choice((1, 1, 2, 3, 5, 10, 300 if self.options.long_retry else 5))
            words += [b"RETRY", b"%d" % plan.retry]
        nodes = len(self.cluster.machines)
        plan.repl = random.randint(1, nodes) if random.random() < 0.5 else min(nodes, random.choice((1, 2, 3)))
        words += [b"REPLICATE", b"%d" % plan.repl]

    def _tries(self, plan: Plan, words: list[bytes], random: Random) -> None:
        """How often the job is tried, and what becomes of it then."""
        if random.random() < 0.3:
            words += [b"HEADER", b"plan", plan.body]
        if random.random() < 0.6:
            plan.tries = random.choice((1, 2, 2, 3, 5))
            words += [b"TRIES", b"%d" % plan.tries]
        if random.random() < 0.5:
            plan.backoff = random.choice((1, 2))
            words += [b"BACKOFF", random.choice((b"fixed:%d", b"linear:0.3:%d", b"exponential:0.1:%d")) % plan.backoff]
        if random.random() < 0.2:
            plan.dead = random.choice((b"", *self.queues))
            words += [b"DEADLETTER", plan.dead]

    @staticmethod
    def _times(plan: Plan, words: list[bytes], random: Random) -> None:
        """TTL and DELAY, which hang together with RETRY."""
        chance = random.random()
        if chance < 0.1:
            plan.ttl = random.choice((5, 20, 60, 600))
            words += [b"TTL", b"%d" % plan.ttl]
            if b"RETRY" not in words:
                plan.retry = min(plan.ttl // 10, 300) or 1
        elif chance < 0.25:
            plan.delay = random.choice((1, 2, 4, 8))
            words += [b"DELAY", b"%d" % plan.delay]

    def _terms(self, plan: Plan, words: list[bytes]) -> None:
        """What only few jobs have: a priority, a date, a delay with decimals."""
        random = self.terms
        if random.random() < 0.3:
            plan.priority = random.choice((1, 1, 5, 255))
            words += [b"PRIORITY", b"%d" % plan.priority]
        if plan.delay or plan.ttl < 10 or random.random() > 0.1:
            return
        delay_ms = random.choice((1, 250, 1500, 3000))
        plan.delay = ceil(delay_ms / 1000)
        if random.random() < 0.5:
            words += [b"DELAY", b"%.3f" % (delay_ms / 1000)]
        else:
            words += [b"AT", b"%d" % (WALL_MS + self.world.now + delay_ms)]

    def _keep(self, plan: Plan, words: list[bytes]) -> None:
        """A job that is there to the end: only its copies matter."""
        if self.keeping.random() < 0.2:
            plan.delay = 300
            words += [b"DELAY", b"300"]

    def getjob(self, random: Random) -> Ask:
        """A GETJOB, blocking or not."""
        queues = self.queues if random.random() < 0.8 else self.all_queues
        names = random.sample(queues, random.randint(1, len(queues)))
        words = [b"GETJOB"]
        patience_ms = random.choice((300, 3000, 20000))
        if random.random() < 0.3:
            words.append(b"NOHANG")
        elif random.random() < 0.7:
            words += [b"TIMEOUT", b"%d" % random.choice((1, 50, 400, 3000))]
        if random.random() < 0.6:
            words += [b"COUNT", b"%d" % random.choice((1, 2, 5, 20))]
        if random.random() < 0.1:
            words.append(b"WITHCOUNTERS")
        if self.options.tries and random.random() < 0.3:
            words.append(b"WITHMETA")
        if self.terms.random() < 0.2:
            words += [b"LEASE", self.terms.choice((b"0.05", b"0.3", b"1", b"2.5", b"4", b"8"))]
        if self.terms.random() < 0.2:
            words.append(b"STRICT")
        choke_ms = random.choice((100, 2000)) if random.random() < 0.03 else 0
        return Ask([*words, b"FROM", *names], patience_ms=patience_ms, choke_ms=choke_ms)


def one_errand(requests: list[list[bytes]]) -> Story:
    """Send some requests, and go."""
    for _ in range(3):
        replies = yield Ask(*requests, patience_ms=1500)
        if replies is not None:
            return


def cron_set(name: bytes, every: int, *options: bytes) -> list[bytes]:
    """Set a schedule whose jobs one node can keep."""
    spec = b"@every %ds" % every
    return [b"CRON", b"SET", name, spec, TICKS, b"of " + name, *options, b"RETRY", b"5", b"REPLICATE", b"1"]


def keeper(load: Workload) -> Story:
    """Sets the steady ones, each until it is set."""
    random = load.world.random("keeper")
    for name, every in STEADY.items():
        catchup = random.choice((b"none", b"none", b"last", b"all"))
        while True:
            replies = yield Ask(cron_set(name, every, b"CATCHUP", catchup), patience_ms=1000)
            if replies and replies[0] == b"OK":
                break
            yield random.randint(50, 500)
            yield Leave()


def moody(random: Random) -> Story:
    """Sets a schedule, pauses it, deletes it, at any node."""
    while True:
        yield random.randint(0, 3000)
        chance = random.random()
        if chance < 0.4:
            yield Ask(cron_set(MOODY, random.choice((1, 1, 2))))
        elif chance < 0.9:
            yield Ask([b"CRON", random.choice((b"DEL", b"PAUSE", b"RESUME")), MOODY])
        else:
            yield Ask([b"CRON", b"LIST"], [b"CRON", b"GET", random.choice((MOODY, *STEADY))])
        if random.random() < 0.5:
            yield Leave()


def taker(random: Random) -> Story:
    """Takes what schedules have added."""
    while True:
        replies = yield Ask([b"GETJOB", b"TIMEOUT", b"2000", b"COUNT", b"20", b"FROM", TICKS], patience_ms=4000)
        jobs = replies[0] if replies and isinstance(replies[0], list) else []
        if jobs:
            yield Ask([b"ACKJOB", *[entry[1] for entry in jobs]])
        if random.random() < 0.1:
            yield Leave()


def granter(load: Workload, random: Random) -> Story:
    """Gives users rights to some queues, takes them back, and deletes users, at any node."""
    while True:
        name = random.choice(load.options.user_names)
        if random.random() < 0.1:
            yield Ask([b"ACL", b"DELUSER", name])
        else:
            some = random.sample(load.all_queues, random.randint(0, len(load.all_queues)))
            rules = [b"reset", b"on", b"nopass", b"+@all", b"-acl", *[b"~" + queue for queue in some]]
            yield Ask([b"ACL", b"SETUSER", name, *rules])
        yield random.choice((50, 500, 2000))
        if random.random() < 0.5:
            yield Leave()


def restricted(load: Workload, random: Random) -> Story:
    """Is a client of a user, and asks for what it may have and for what it may not."""
    name = random.choice(load.options.user_names)
    while True:
        yield random.randint(0, 300)
        replies = yield Ask([b"AUTH", name, b"any"], patience_ms=3000)
        if not replies or replies[0] != b"OK":
            yield Leave()
            continue
        for _ in range(random.randint(1, 20)):
            ask = trying(load, random)
            replies = yield ask
            if replies is None:
                break  # the next request may go to another node, where it is nobody
            took = ask.requests[0][0] == b"GETJOB" and isinstance(replies[0], list)
            for entry in replies[0] if took else []:  # what QPEEK shows may be a job whose ADDJOB is not answered yet
                load.note(entry[1])
                load.errand([b"ACKJOB", entry[1]])
            yield random.randint(0, 100)
        yield Leave()


def trying(load: Workload, random: Random) -> Ask:
    """One thing that a client of a user asks for."""
    queue = random.choice(load.all_queues)
    chance = random.random()
    if chance < 0.5 or not load.recent or load.options.tries:
        return Ask([b"GETJOB", b"TIMEOUT", b"%d" % random.choice((1, 500, 3000)), b"FROM", queue], patience_ms=5000)
    if chance < 0.6:
        return Ask([b"QPEEK", queue, b"3"])
    return Ask([random.choice((b"SHOW", b"RESULT")), random.choice(load.recent)], patience_ms=8000)


def producer(load: Workload, random: Random) -> Story:
    """Adds jobs, several at once or one by one."""
    pause_ms = random.choice((5, 40, 40, 150, 600)) if not load.options.eager else 15
    batch = random.choice((1, 1, 3, 8))
    while True:
        yield random.randint(0, 2 * pause_ms)
        requests = [load.addjob(random) for _ in range(random.randint(1, batch))]
        if random.random() < 0.1:
            requests.append([b"QLEN", random.choice(load.queues)])
        replies = yield Ask(*requests, patience_ms=random.choice((100, 3000, 6000)))
        for reply in replies or ():
            if isinstance(reply, bytes):
                load.note(reply)
        if random.random() < 0.1:
            yield Leave()


def consumer(load: Workload, random: Random) -> Story:
    """Gets jobs and does something about each."""
    work_ms = random.choice((1, 20, 20, 300, 2500))
    while True:
        replies = yield load.getjob(random)
        jobs = replies[0] if replies and isinstance(replies[0], list) else []
        for entry in jobs:
            load.note(entry[1])
            yield random.randint(0, work_ms)
            yield from finish(load, random, entry[1])
        if not jobs:
            yield random.randint(0, 30)
        if random.random() < 0.05:
            yield Leave()


def waiter(load: Workload, random: Random) -> Story:
    """Waits for jobs, one at a time, and acknowledges each at once."""
    while True:
        queue = random.choice(load.queues)
        replies = yield Ask([b"GETJOB", b"TIMEOUT", b"2000", b"FROM", queue], patience_ms=3000)
        jobs = replies[0] if replies and isinstance(replies[0], list) else []
        for entry in jobs:
            yield Ask([b"ACKJOB", entry[1]])
        if random.random() < 0.02:
            yield Leave()


def finish(load: Workload, random: Random, job_id: bytes) -> Story:
    """What a consumer does with a job that it has got."""
    if load.options.ends and load.ends.random() < 0.2:
        yield from rivals(load, job_id)
        return
    chance = random.random()
    if chance < 0.55:
        yield Ask(acknowledgement(load, job_id))
    elif chance < 0.67:
        load.errand(acknowledgement(load, job_id))
    elif chance < 0.75:
        how = [[], [], [b"NOCOUNT"], [b"DELAY", b"%d" % random.choice((0, 1, 3))], [b"DELAY", b"0.3"]]
        if load.options.tries:
            how += [[b"ERROR", b"it failed"], [b"ERROR", b"bad", b"DEAD"], []]
        yield Ask([b"NACK", job_id, *random.choice(how)])
    elif chance < 0.83:
        yield Ask([b"WORKING", job_id])
        yield random.randint(0, 2500)
        yield Ask([b"ACKJOB", job_id])
    elif chance < 0.85:
        load.errand([b"WORKING", job_id])
    elif chance < 0.88:
        yield Ask([random.choice((b"FASTACK", b"FASTACK", b"DELJOB")), job_id])
    elif chance < (0.90 if not load.options.tries else 0.96):
        load.errand([b"NACK", job_id])


def acknowledgement(load: Workload, job_id: bytes) -> list[bytes]:
    """ACKJOB, with a result that is like no other."""
    if not load.options.ends or load.ends.random() < 0.4:
        return [b"ACKJOB", job_id]
    load.number += 1
    return [b"ACKJOB", job_id, b"RESULT", b"result %d" % load.number]


def rivals(load: Workload, job_id: bytes) -> Story:
    """Several ends of one job, taken at about the same time; each wants to know at once which one it is."""
    question = [b"RESULT", job_id]
    for _ in range(2):
        other = acknowledgement(load, job_id) if load.ends.random() < 0.7 else [b"CANCEL", job_id]
        load.errand(other, question)
    yield load.ends.choice((0, 0, 3, 10, 20))
    yield Ask(acknowledgement(load, job_id), question)


def curious(load: Workload, random: Random) -> Story:
    """Wants to know how jobs end, and ends some."""
    while True:
        yield random.randint(0, 400)
        ids = random.sample(load.recent, min(len(load.recent), random.choice((1, 1, 2, 5))))
        if not ids:
            continue
        chance = random.random()
        if chance < 0.35:
            yield Ask([b"RESULT", ids[0]])
        elif chance < 0.8:
            timeout_ms = random.choice((50, 500, 3000, 10_000))
            words = [b"WAITJOB", b"%d" % timeout_ms, *ids, *([b"ANY"] if random.random() < 0.3 else [])]
            yield Ask(words, patience_ms=random.choice((300, 20_000)))
        else:
            yield Ask([b"CANCEL", *ids[:2], *([b"WAITING"] if random.random() < 0.4 else [])])
        if random.random() < 0.4:
            yield Leave()


def meddler(load: Workload, random: Random) -> Story:
    """Does things to jobs that are not his, and asks questions."""
    while True:
        yield random.randint(0, 800)
        ids = random.sample(load.recent, min(len(load.recent), random.randint(1, 3)))
        request = meddling(load, random, ids)
        if request:
            yield Ask(request)
        if random.random() < 0.3:
            yield Leave()


def sweeper(load: Workload, random: Random) -> Story:
    """Puts things in order, at one node after the other."""
    while True:
        yield random.randint(0, 3000)
        ids = random.sample(load.recent, min(len(load.recent), random.randint(1, 8)))
        if ids and random.random() < 0.3:
            yield Ask([b"MOVE", random.choice(load.all_queues), *ids])
        else:
            yield Ask(sweeping(load, random))
        yield Leave()


def steward(load: Workload, random: Random) -> Story:
    """Says how long queues may be, and what becomes of what is too much."""
    while True:
        name = random.choice([*load.all_queues, b"q*", b"q*"])
        chance = random.random()
        if chance < 0.6:
            overflow = b"drop-oldest" if random.random() < 0.8 else b"refuse"
            bound = b"%d" % random.choice((1, 2, 3, 5, 20))
            yield Ask([b"QCONFIG", b"SET", name, b"maxlen", bound, b"overflow", overflow])
        elif chance < 0.7:
            yield Ask([b"QCONFIG", b"SET", name, b"dead-ttl", random.choice((b"86400", b"172800"))])
        elif chance < 0.85:
            yield Ask([b"QCONFIG", b"UNSET", name])
        else:
            yield Ask([b"QCONFIG", b"GET", name], [b"QCONFIG", b"LIST"], [b"METRICS"])
        if random.random() < 0.5:
            yield Leave()
        yield random.randint(0, 1500)


def speaker(load: Workload, random: Random) -> Story:
    """Publishes messages, each of them once: who does not know whether it was heard does not say it again."""
    while True:
        requests = []
        for _ in range(random.choice((1, 1, 3))):
            load.number += 1
            requests.append([b"PUBLISH", NEWS, b"message %d" % load.number])
        yield Ask(*requests, patience_ms=300)
        if random.random() < 0.5:
            yield Leave()
        yield random.randint(0, 400)


def sweeping(load: Workload, random: Random) -> list[bytes]:
    """Something that is done with a whole queue, at all nodes."""
    queue = random.choice(load.all_queues)
    count = [b"COUNT", b"%d" % random.choice((1, 3, 10))] if random.random() < 0.5 else []
    chance = random.random()
    if chance < 0.4:
        return [b"QMOVE", queue, random.choice([one for one in load.all_queues if one != queue]), *count]
    if chance < 0.8:
        return [b"REVIVE", random.choice([queue, *[one for one in load.all_queues if one.endswith(b":dead")]]), *count]
    return [b"QFLUSH", queue, *(count or [b"COUNT", b"5"] if random.random() < 0.7 else count)]


def meddling(load: Workload, random: Random, ids: list[bytes]) -> list[bytes]:
    """One thing that a meddler does."""
    queue = random.choice(load.queues)
    chance = random.random()
    if chance < 0.08 and load.options.pause:
        state = random.choice((b"in", b"out", b"all", b"none", b"none"))
        return [b"PAUSE", queue, state, *([b"bcast"] if random.random() < 0.5 else [])]
    if chance < 0.2 and ids and load.options.tries:
        return random.choice(([b"MOVE", random.choice(load.all_queues), *ids], [b"REVIVEJOB", *ids]))
    if chance < 0.6 and ids:
        verb = random.choice((b"ENQUEUE", b"ENQUEUE", b"DEQUEUE", b"NACK", b"ACKJOB", b"DELJOB", b"FASTACK"))
        return [verb, *ids]
    if chance < 0.61:
        return [b"DEBUG", b"FLUSHALL"]
    questions: list[list[Any]] = [
        [b"QLEN", queue],
        [b"QPEEK", queue, b"3"],
        [b"QSTAT", queue],
        [b"QLEN", queue, b"CLUSTER"],
        [b"QSTAT", queue, b"CLUSTER"],
        [b"QHISTORY", queue, random.choice((b"minute", b"hour")), b"CLUSTER"],
        [b"FIND", queue, random.choice((b"k0", b"k1"))],
        [b"JSCAN", b"COUNT", b"20"],
        [b"QSCAN"],
        [b"INFO"],
        [b"HELLO"],
        [b"CLUSTER", b"NODES"],
        [b"SHOW", ids[0]] if ids else [b"PING"],
        [b"WORKING", ids[0]] if ids else [b"PING"],
    ]
    return random.choice(questions)
