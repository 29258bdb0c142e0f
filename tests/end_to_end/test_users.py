"""Users against real nodes: clients of all kinds, starts, and a cluster."""

from pathlib import Path

import pytest
import redis

from disque.client import Disque, NoPermError, WrongPassError
from tests.end_to_end.conftest import MakeCluster, StartNode
from tests.end_to_end.node import LOOPBACK, ServerError, until

NO_QUEUE = "NOPERM this user has no permissions to access one of the keys used as arguments"


def test_users_of_acl_and_of_the_file(make_node: StartNode, tmp_path: Path) -> None:
    conf = tmp_path / "users.conf"
    conf.write_text('user boss on ">the boss" ~* &* +@all\nuser default off\n')
    node = make_node("--appendonly", "yes", "--include", str(conf)).start()
    boss = redis.Redis(host=LOOPBACK, port=node.port, username="boss", password="the boss")
    boss.acl_setuser(
        "shop", enabled=True, passwords=["+s"], keys=["mails*"], categories=["+@produce"], commands=["+ping"]
    )
    boss.acl_setuser("mailer", enabled=True, passwords=["+m"], keys=["mails*"], categories=["+@consume"])
    shown = boss.acl_getuser("shop")
    assert shown is not None
    assert (shown["categories"], shown["commands"]) == (["-@all", "+@produce"], ["+ping"])
    node.kill()
    node.start()
    with Disque(f"disque://shop:s@{LOOPBACK}:{node.port}") as shop:
        job_id = shop.add("mails", "hello")
        with pytest.raises(NoPermError):
            shop.get("mails", nohang=True)
        with pytest.raises(NoPermError):
            shop.add("secrets", "x")
    with Disque(f"disque://mailer:m@{LOOPBACK}:{node.port}") as mailer:
        [job] = mailer.get("mails", timeout=10)
        assert job.id == job_id
        job.ack()
    with Disque(f"disque://mailer:wrong@{LOOPBACK}:{node.port}") as stranger, pytest.raises(WrongPassError):
        stranger.get("mails", nohang=True)


def test_a_user_at_all_nodes(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(2)
    one, two = cluster.members
    one.ask("ACL", "SETUSER", "u", "on", ">p", "~mine", "+@all")
    until(lambda: b"u" in two.ask("ACL", "USERS"), "the user at the other node")
    foreign, mine = (one.ask("ADDJOB", queue, "b", 0, "REPLICATE", 1) for queue in ("foreign", "mine"))
    client = two.raw()
    assert client.ask("AUTH", "u", "p") == b"OK"
    refused = client.ask("CANCEL", foreign)
    assert isinstance(refused, ServerError)
    assert str(refused) == NO_QUEUE
    assert client.ask("CANCEL", mine) == 1
    assert one.ask("QLEN", "foreign") == 1
