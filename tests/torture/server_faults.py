"""Faults of a PostgreSQL server: it is killed, cut off, slow, full, read-only or deadlocked. As in `faults`, work
continues afterwards and nothing that was acknowledged may be missing."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from urllib.parse import quote

from cutting import Proxy
from faults import Fault, done_again, grow, small_disk
from looking import open_log
from servers import Server
from swarm import Swarm
from writers import DONE, UNKNOWN, name_of, prepare

from foldmark import Log
from foldmark.core.events import Draft

DOWN_TEXT = r"the connection to \S+ (failed|was lost)"
CANCELLED_TEXT = r"ended a statement \(.*statement timeout\)\.( Nothing of it was recorded; repeat it\.)?$"
FULL_TEXT = r"the disk of \S+ is full \(.*\)(: nothing was recorded)?\. Free some space, then repeat"
READ_ONLY_TEXT = r"does not allow that to this user \(permission denied"
DEADLOCK_TEXT = r"wrote to the same conversations in \S+ in another order \(deadlock detected\)\. Nothing was recorded"


def server_killed(server: Server, times: int, seed: str) -> Fault:
    """Kill and restart the whole server under load, `times` times."""
    fault = Fault(f"server killed (SIGKILL) and restarted {times} times")
    address, chance = server.fresh(), random.Random(seed)
    with Swarm(address, seed) as swarm:
        for _ in range(times):
            more = len(swarm.said) + chance.randint(40, 160)
            swarm.listen(lambda: len(swarm.said) >= more)  # noqa: B023 - it is used before the next round
            server.kill()
            failed = {life: life.count(UNKNOWN) for life in swarm.lives.values()}
            swarm.listen(lambda: all(life.count(UNKNOWN) > before for life, before in failed.items()))  # noqa: B023
            server.restart()
            done_again(swarm)
        fault.hear(swarm.said, DOWN_TEXT)
    fault.toll.look(address, swarm)
    return fault


def connection_cut(server: Server, times: int, seed: str) -> Fault:
    """Cut connections in the middle of commits, before and after the server has carried them out."""
    fault, address = Fault("connection cut in the middle of a commit"), server.fresh()
    with Proxy(server.socket, 10, seed) as proxy:
        through = f"postgresql://postgres@127.0.0.1:{proxy.port}/{_name(address)}?sslmode=disable&gssencmode=disable"
        with Swarm(address, seed, through=through) as swarm:
            swarm.listen(lambda: proxy.cut.total() >= times)
            done_again(swarm)
        fault.hear(swarm.said, DOWN_TEXT)
        fault.name += f" ({proxy.cut['before']} before, {proxy.cut['after']} after it was carried out)"
    fault.toll.look(address, swarm)
    return fault


def repeated(server: Server, times: int, seed: str) -> Fault:
    """Cut connections in the middle of commits. Each append is repeated with its key until it is acknowledged."""
    fault, address = Fault("connection cut, the append repeated with its key"), server.fresh()
    prepare(address, 4)
    with Proxy(server.socket, 4, seed) as proxy:
        through = f"postgresql://postgres@127.0.0.1:{proxy.port}/{_name(address)}?sslmode=disable&gssencmode=disable"

        def append(number: int) -> list[tuple[int, str]]:
            found: list[tuple[int, str]] = []
            while proxy.cut.total() < times:
                text = f"{number}/{len(found)}"
                while not fault.attempt(lambda: found.append((_append(through, number, text), text)), DOWN_TEXT):  # noqa: B023
                    pass
            return found

        with ThreadPoolExecutor(4) as pool:
            acknowledged = list(pool.map(append, range(4)))
    with open_log(address) as log:
        for number, found in enumerate(acknowledged):
            there = [(message.id, message.content) for message in log.agent(name_of(number)).context().messages]
            fault.toll.said[DONE] += len(found)
            if there != found:
                fault.toll.faults.append(f"acknowledged were {len(found)} messages, and {len(there)} are there")
    fault.name += f" ({proxy.cut['before']} before, {proxy.cut['after']} after it was carried out)"
    return fault


def _append(address: str, number: int, text: str) -> int:
    """Append a message as a program that has just started would. Its text is also its key."""
    with open_log(address) as log:
        return log.agent(name_of(number)).append("user", text, key=text)


def statement_timeout(server: Server, times: int, seed: str) -> Fault:
    """Work with a time limit that many statements exceed."""
    fault, address = Fault("statement timeout of 2 ms"), server.fresh()
    slow = f"{address}&options={quote('-c statement_timeout=2')}"
    with Swarm(address, seed, through=slow) as swarm:
        swarm.listen(lambda: sum("statement timeout" in each.text for each in swarm.said) >= times)
        fault.hear(swarm.said, CANCELLED_TEXT)
        done_again(swarm)
    fault.toll.look(address, swarm)
    return fault


def deadlock(server: Server, times: int) -> Fault:
    """Append to the same two conversations in one transaction from two programs, in opposite order."""
    fault, address = Fault("deadlock"), server.fresh()
    prepare(address, 2)
    with open_log(address) as one, open_log(address) as two:
        ids = [one.agent(name_of(number)).id for number in range(2)]
        for round in range(times):
            barrier, outcomes = Barrier(2), list[bool]()

            def both(log: Log, order: list[str], barrier: Barrier = barrier, round: int = round) -> bool:
                def act() -> None:
                    with log.store.write() as transaction:
                        for at, agent in enumerate(order):
                            text = f"round {round} of {order[0]}"
                            transaction.append(agent, None, [Draft(kind="user", content=text, created_at=log.clock())])
                            if at == 0:
                                barrier.wait()

                return fault.attempt(act, DEADLOCK_TEXT)

            with ThreadPoolExecutor(2) as pool:
                outcomes = list(pool.map(both, (one, two), (ids, ids[::-1])))
            if sorted(outcomes) != [False, True]:
                fault.toll.faults.append(f"of two transactions in a circle {sum(outcomes)} were carried out")
            texts = [[message.content for message in one.agent(each).context().messages] for each in ids]
            if texts[0] != texts[1] or len(texts[0]) != round + 1:
                fault.toll.faults.append(f"after a deadlock the two conversations hold {texts}")
    return fault


def full_disk(server: Server, folder: Path, times: int, seed: str) -> Fault | None:
    """Fill the disk of the tables. Return None if this user may not mount disks."""
    with small_disk(folder / "tables", 14_000_000) as mounted:
        if not mounted:
            return None
        server.own(folder / "tables")
        fault = Fault("full disk")
        with server.connect() as db:
            db.execute(f"CREATE TABLESPACE small LOCATION '{folder / 'tables'}'")
            db.execute("CREATE DATABASE small TABLESPACE small")
        address = server.address("small")
        with Swarm(address, seed) as swarm:
            swarm.listen(lambda: sum("is full" in each.text for each in swarm.said) >= times)
            fault.hear(swarm.said, FULL_TEXT)
            grow(folder / "tables")
            done_again(swarm)
        fault.toll.look(address, swarm)
        with server.connect() as db:
            db.execute("DROP DATABASE small WITH (FORCE)")
            db.execute("DROP TABLESPACE small")
    return fault


def read_only(server: Server, seed: str) -> Fault:
    """Open a database with a login that may only read."""
    fault, address = Fault("login that may only read"), server.fresh()
    with Swarm(address, seed) as swarm:
        swarm.listen(lambda: sum(each.state == DONE for each in swarm.said) >= 50)
    name, login = _name(address), f"reader_{_name(address)}"
    with server.connect(name) as db:
        for sql in ("USAGE ON SCHEMA", "SELECT ON ALL TABLES IN SCHEMA"):
            db.execute(f"{f'CREATE ROLE {login} LOGIN; ' if 'USAGE' in sql else ''}GRANT {sql} foldmark TO {login}")
    with open_log(server.login(name, login)) as log:
        agents = log.agents()
        acts: tuple[Callable[[], object], ...] = (
            lambda: agents[0].append("user", "no"),
            lambda: agents[0].do("/mark"),
            lambda: agents[0].do(f"/send {agents[1].id} no"),
        )
        for act in acts:
            fault.expect(act, READ_ONLY_TEXT)
        for agent in agents:
            list(agent.context().messages)
    fault.toll.look(address, swarm)
    return fault


def _name(address: str) -> str:
    return address.partition("?")[0].rpartition("/")[2]
