"""Only one process at a time runs an agent [SPEC 2, 6]: real processes on one database are killed, stopped, raced."""

import asyncio
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest

import foldmark
import forked
from foldmark import Agent, CommandError, Log
from foldmark.cli.program import run
from foldmark.core import selections
from foldmark.core.agents import MODEL, TOOLS, Lease, Watch
from foldmark.core.codec import timestamp
from foldmark.core.events import METADATA_KINDS, Event
from foldmark.core.ports import Clock
from foldmark.core.request import Piece, Request
from foldmark.log import listening
from foldmark.log.doctor import examine
from foldmark.log.family import here, running
from foldmark.request.recorded import newest_requests
from foldmark.runtime.lease import SECONDS, LeaseError, interrupt, renew, settled, take
from foldmark.runtime.supervisor import Supervisor
from patience import LIMIT
from sampled import DEEP, sampled
from stored import connection, leases, stored


class Process:
    """`working` in another process; `child` makes it a child of this one, which can then wait for its signals."""

    def __init__(self, path: Path, *options: str, child: bool = False) -> None:
        program = [sys.executable, str(Path(__file__).with_name("working.py")), str(path), *options]
        start = subprocess.Popen if child else forked.Popen
        self._process = start(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.id, self._unread = self._process.pid, b""
        self.until("ready")

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    def heard(self) -> str:
        """Return the next line that it prints."""
        assert self._process.stdout is not None
        while b"\n" not in self._unread:
            ready, _, _ = select.select([self._process.stdout], [], [], LIMIT)
            assert ready, "it says nothing"
            more = os.read(self._process.stdout.fileno(), 1 << 16)
            assert more, "it has ended"
            self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode()

    def until(self, wanted: str) -> None:
        assert self.heard() == wanted

    def say(self, name: str, text: str) -> None:
        """Begin a turn, and return when its model is asked."""
        self.tell(f"say {name} {text}")
        self.until("asked")

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def stopped(self) -> None:
        """Wait until a signal has stopped it."""
        _, status = os.waitpid(self.id, os.WUNTRACED)
        assert os.WIFSTOPPED(status)

    def kill(self, *, reaped: bool = True) -> None:
        """Kill the process with SIGKILL."""
        self._process.kill()
        if reaped:
            self._process.wait(LIMIT)
        else:
            os.waitid(os.P_PID, self.id, os.WEXITED | os.WNOWAIT)

    def close(self) -> None:
        self._process.send_signal(signal.SIGCONT)
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(LIMIT)
        finally:
            self._process.kill()
            assert self._process.stdout is not None
            self._process.stdout.close()


class Model:
    """A model that says one sentence."""

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        yield "Here I am."

    async def count(self, request: Request) -> int:
        raise NotImplementedError


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database with the conversation `default`; the command line uses it as well."""
    path = tmp_path / "log.db"
    monkeypatch.setenv("FOLDMARK_DB", str(path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with foldmark.open(path) as log:
        log.agent("default").append("user", "Earlier.")
        log.agent("default").end_turn()
    return path


@pytest.fixture
def start(path: Path) -> Iterator[Callable[..., Process]]:
    """A function that starts a process; the process is ended after the test."""
    with ExitStack() as stack:

        def start(*options: str, child: bool = False) -> Process:
            process = Process(path, *options, child=child)
            stack.callback(process.close)
            return process

        yield start


@pytest.fixture
def log(path: Path) -> Iterator[Log]:
    """The database as opened by this process, the second one that uses it."""
    with foldmark.open(path) as log:
        yield log
        assert list(examine(log)) == []


@pytest.fixture
def agent(log: Log) -> Agent:
    return log.agent("default")


def say(agent: Agent, text: str = "Hello?") -> None:
    """Run a turn of an agent in this process."""

    async def one() -> None:
        async with Supervisor(agent.log, lambda _: Model()) as supervisor:
            supervisor.attended = agent.id
            await supervisor.say(agent, text)

    asyncio.run(one())


def chat(typed: str) -> "subprocess.CompletedProcess[str]":
    """Run a chat in another process."""
    program: list[str | Path] = [Path(sys.executable).with_name("foldmark"), "chat", "default"]
    return forked.run(program, input=typed, capture_output=True, text=True, timeout=LIMIT, check=False)


def events(agent: Agent) -> list[Event]:
    """Return the agent's own timeline, without refreshing its context in this process."""
    found = stored(agent.log).events(range(1, agent.standing().newest + 1))
    return [event for event in found if event.agent_id == agent.id and event.kind not in METADATA_KINDS]


def last(agent: Agent, number: int) -> list[tuple[str, str, bool]]:
    return [(event.kind, event.content, event.interrupted) for event in events(agent)[-number:]]


def clock(seconds: float) -> Clock:
    """Return a clock that is this many seconds ahead."""
    return lambda: timestamp(datetime.now(UTC) + timedelta(seconds=seconds))


def later(log: Log, seconds: float) -> None:
    """Move the database's clock ahead, for this process only."""
    log.store.connector.clock = clock(seconds)  # type: ignore[attr-defined]


def lease(agent: Agent) -> Lease:
    found = stored(agent.log).lease(agent.id)
    assert found is not None
    return found


def wait(condition: Callable[[], bool]) -> None:
    """Wait until the condition is true."""
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.005)


# The second process learns who holds the lease


def test_the_second_is_told_who_runs_it_and_records_nothing(start: Callable[..., Process], agent: Agent) -> None:
    first = start()
    first.say("default", "Go.")
    before = events(agent)
    host, taken = here().host.partition(" ")[0], lease(agent).taken_at[:16].replace("T", " ")
    who = f"conversation 'default' is being run by process {first.id} on {host} (since {taken} UTC)"
    for state in (MODEL, TOOLS):
        if state == TOOLS:
            first.tell("call hold")
            first.until("holding")
            before = events(agent)
        with pytest.raises(LeaseError) as caught:
            say(agent)
        assert str(caught.value) == f"{who}, {state}; wait until it is idle, or end it there. Nothing was recorded"
        assert events(agent) == before
        assert lease(agent).process == first.id
    first.tell("result ok")
    first.until("asked")
    first.tell("answer Done.")
    first.until("done default")
    say(agent)
    assert last(agent, 3) == [
        *(("user", "Hello?", False), ("assistant", "Here I am.", False), ("turn_ended", "", False))
    ]


def test_a_chat_in_a_second_process_is_told_as_well(start: Callable[..., Process], agent: Agent) -> None:
    first = start()
    first.say("default", "Go.")
    before = events(agent)
    done = chat("Hello?\n")
    assert f"conversation 'default' is being run by process {first.id} on " in done.stderr
    assert (done.returncode, events(agent)) == (1, before)
    first.tell("answer Done.")
    first.until("done default")
    assert "Hello?" in chat("Hello?\n").stdout


def test_another_agent_may_be_run_meanwhile(start: Callable[..., Process], log: Log) -> None:
    first = start()
    first.say("default", "Go.")
    say(log.agent("other"))
    assert last(log.agent("other"), 2)[0] == ("assistant", "Here I am.", False)
    first.tell("answer Done.")
    first.until("done default")


def test_the_agents_of_another_process_are_seen_at_work(
    start: Callable[..., Process], agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    first = start()

    def seen() -> str:
        assert run(["do", "default", "/agents"]) == 0
        return capsys.readouterr().out.partition("default  ")[2].partition(" · ")[0]

    assert seen() == "idle"
    first.say("default", "Go.")
    assert seen() == "waiting for the model"
    first.tell("call hold")
    first.until("holding")
    assert seen() == "executing tools"
    first.tell("result ok")
    first.until("asked")
    assert seen() == "waiting for the model"
    first.kill()
    assert seen() == "turn open"


def test_appends_of_another_program_are_not_refused(start: Callable[..., Process], agent: Agent) -> None:
    first = start()
    first.say("default", "Go.")
    agent.context()
    agent.append("user", "And this.")
    agent.append_tool_call("read", {}, call_id="mine")
    agent.append_tool_result("mine", "text")
    first.tell("call hold")
    first.until("holding")
    agent.context()
    agent.append("user", "And that.")
    first.tell("result held")
    first.until("asked")
    first.tell("answer Done.")
    first.until("done default")
    opened = next(event for event in events(agent) if event.content == "Go.")
    mine = [event for event in events(agent) if event.turn_id == opened.id]
    assert [event.content for event in mine] == [
        *("Go.", "And this.", "{}", "text", "{}", "And that.", "held", "Done.", "")
    ]
    assert [event.interrupted for event in mine] == [False] * 9


# A person interrupts


def clear_with_do() -> None:
    assert run(["do", "default", "/clear"]) == 0


def clear_in_a_chat() -> None:
    done = chat("/clear\n")
    assert "Context cleared." in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(("clear", "state"), sampled([*product((clear_with_do, clear_in_a_chat), (MODEL, TOOLS))], 2))
def test_an_operation_in_another_process_interrupts(
    start: Callable[..., Process], agent: Agent, clear: Callable[[], None], state: str
) -> None:
    first = start()
    first.say("default", "Go.")
    if state == TOOLS:
        first.tell("call hold")
        first.until("holding")
    clear()
    first.until("cancelled default")
    kinds = [(kind, interrupted) for kind, _, interrupted in last(agent, 2)]
    assert kinds == [("turn_ended", True), ("clear", False)]
    assert (list(agent.context().messages), agent.open_turn, leases(agent.log)) == ([], None, [])
    first.say("default", "Again.")  # the interruption ended that turn only
    first.tell("answer Yes.")
    first.until("done default")


def test_other_commands_interrupt_nothing(start: Callable[..., Process], agent: Agent) -> None:
    first = start("0.01", "30")
    for command in ("/mark M", "/note And this.", "/fork M", "/agents", "/context show", "/clear A B"):
        first.say("default", "Go.")
        assert run(["do", "default", command]) == (2 if command == "/clear A B" else 0)
        assert not lease(agent).interrupt
        if command == "/fork M":
            first.until("asked")  # the process that runs the parent runs the child
            first.tell("answer Done.")
        first.tell("answer Done.")
        first.until("done default")
        assert last(agent, 2) == [("assistant", "Done.", False), ("turn_ended", "", False)], command


def test_a_process_that_does_not_end_its_turn_is_named(start: Callable[..., Process], agent: Agent) -> None:
    first = start()
    first.say("default", "Go.")
    first.signal(signal.SIGSTOP)
    with pytest.raises(LeaseError, match=f"is run by process {first.id} on .*, which does not end its turn"):
        interrupt(agent, patience=0.1)
    first.signal(signal.SIGCONT)
    first.until("cancelled default")


def test_a_killed_child_of_another_process_ends_with_its_descendants(
    start: Callable[..., Process], agent: Agent
) -> None:
    child = agent.log.agent(agent.do("/fork").data["child"])
    grandchild = agent.log.agent(child.do("/fork").data["child"])
    for each in (child, grandchild):  # otherwise the first process would start it as a waiting fork
        each.append("user", "Earlier.")
        each.end_turn()
    first = start()
    for each in (agent, child, grandchild):
        first.say(each.id, "Go.")
    agent.context()
    agent.do(f"/kill {child.id}")
    assert {first.heard(), first.heard()} == {f"cancelled {child.id}", f"cancelled {grandchild.id}"}
    for each in (child, grandchild):
        assert last(each, 2) == [("user", "Go.", False), ("turn_ended", "", True)]
        with pytest.raises(CommandError, match="is dead"):
            say(each)
    assert [each.agent for each in leases(agent.log)] == [agent.id]
    first.tell("answer Done.")
    first.until(f"done {agent.id}")


# Taking over


@pytest.mark.parametrize("reaped", [True, False])
def test_agents_of_a_killed_process_are_taken_over_at_once(
    start: Callable[..., Process], agent: Agent, reaped: bool
) -> None:
    """This also holds while the killed process is a zombie."""
    first = start(child=not reaped)
    first.say("default", "Go.")
    first.kill(reaped=reaped)
    say(agent)
    assert last(agent, 5) == [
        *(("user", "Go.", False), ("turn_ended", "", True)),
        *(("user", "Hello?", False), ("assistant", "Here I am.", False), ("turn_ended", "", False)),
    ]
    assert leases(agent.log) == []


def test_a_command_closes_what_a_killed_process_left_open(start: Callable[..., Process], agent: Agent) -> None:
    """Otherwise the command would join the dead turn, and be interrupted when that turn is closed."""
    first = start()
    first.say("default", "Go.")
    first.kill()
    assert run(["do", "default", "/forget zebras"]) == 0
    ends = [event.interrupted for event in events(agent) if event.kind == "turn_ended"]
    assert ends == [False, True]
    newest = list(events(agent))[-1]
    assert (newest.kind, newest.turn_id) == ("command", None)
    assert leases(agent.log) == []


def test_agents_of_a_stopped_process_are_taken_over_when_its_lease_has_expired(
    start: Callable[..., Process], agent: Agent
) -> None:
    first = start()
    first.say("default", "Go.")
    first.signal(signal.SIGSTOP)
    with pytest.raises(LeaseError):
        say(agent)
    later(agent.log, SECONDS - 5)
    with pytest.raises(LeaseError):
        say(agent)
    later(agent.log, SECONDS)
    say(agent)
    assert last(agent, 5)[:3] == [("user", "Go.", False), ("turn_ended", "", True), ("user", "Hello?", False)]


def test_a_process_that_was_stopped_for_too_long_records_nothing_any_more(
    start: Callable[..., Process], agent: Agent
) -> None:
    first = start(child=True)
    for ended, state in sampled([*product((True, False), (MODEL, TOOLS))], 2):
        first.say("default", "Go.")
        if state == TOOLS:
            first.tell("call hold + call slash mark M")
            first.until("holding")
        first.signal(signal.SIGSTOP)
        first.stopped()
        later(agent.log, SECONDS)
        held = None
        if ended:
            say(agent)
        else:
            held = take(agent, "this one")
        before, sent = events(agent), newest_requests(stored(agent.log), agent.id, 10)
        first.signal(signal.SIGCONT)
        first.tell("answer Late." if state == MODEL else "result late")
        who = "nobody" if ended else f"process {os.getpid()} on {here().host.partition(' ')[0]}"
        heard = first.heard()
        assert heard.startswith(
            "error default LeaseError conversation 'default' is no longer run by this process, which was "
        )
        assert f"stopped for more than 30 seconds; {who}" in heard
        assert heard.endswith("runs it now. What this process had recorded by then is kept.")
        assert (events(agent), newest_requests(stored(agent.log), agent.id, 10)) == (before, sent)
        assert [each.holder for each in leases(agent.log)] == ([] if ended else ["this one"])
        if held is not None:
            held.give_back()


def test_a_process_that_was_stopped_before_a_command_does_not_carry_it_out(
    start: Callable[..., Process], agent: Agent
) -> None:
    first = start(child=True)
    for number, command in enumerate(("mark M", "clear", "fork", "check-mail"), 1):
        first.say("default", "Go.")
        agent.log.agent("other").do("/send default hello")
        first.tell("stop-before")
        first.tell(f"call slash {command}")
        first.stopped()
        later(agent.log, SECONDS)
        say(agent)
        before, agents = events(agent), agent.log.agents()
        first.signal(signal.SIGCONT)
        assert first.heard().startswith("error default LeaseError"), command
        assert (events(agent), agent.log.agents()) == (before, agents), command
        assert len(selections.unread(stored(agent.log), agent.id)) == number, command


@pytest.mark.parametrize("ahead", [-3600, 3600])
def test_programs_whose_clocks_differ_agree_on_who_runs_an_agent(path: Path, agent: Agent, ahead: float) -> None:
    """Neither takes over an agent that the other runs, nor takes a lease that the other considers expired."""
    agent.log.clock = clock(ahead)
    with foldmark.open(path) as other:
        both = (agent, "here"), (other.agent("default"), "there")
        for (first, holder), (second, _) in (both, both[::-1]):
            held = take(first, holder)
            with pytest.raises(LeaseError, match="is being run by process"):
                take(second, "second")
            found = running(second)
            assert found is not None
            assert found.holder == holder
            renew(first.log, holder)
            assert clock(0)() < lease(second).until < clock(SECONDS + 1)()
            held.give_back()


# Holders of leases


def lend(agent: Agent, host: str, process: int, seconds: float) -> None:
    """Record a lease that expires after `seconds`, with an open turn."""
    agent.append("user", "Cut off.")
    now = datetime.now(UTC)
    until = timestamp(now + timedelta(seconds=seconds))
    with agent.log.store.write() as transaction:
        transaction.lend(agent.id, Lease(agent.id, "somebody", host, process, MODEL, timestamp(now), until))


def test_a_process_id_that_another_program_has_now(agent: Agent) -> None:
    """The other program cannot be told from the process that held the lease, so the lease must expire first."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        lend(agent, here().host, other.pid, 20)
        with pytest.raises(LeaseError, match=f"process {other.pid} "):
            say(agent)
        later(agent.log, 20)
        say(agent)
        assert last(agent, 5)[:2] == [("user", "Cut off.", False), ("turn_ended", "", True)]
        later(agent.log, 0)
        lend(agent, here().host, other.pid, -0.001)
        say(agent)
        assert last(agent, 5)[:2] == [("user", "Cut off.", False), ("turn_ended", "", True)]


def test_the_lease_of_another_machine_holds_until_it_runs_out(agent: Agent) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    lend(agent, "elsewhere 1234abcd pid:[1]", gone.pid, 20)
    with pytest.raises(LeaseError, match=f"process {gone.pid} on elsewhere "):
        say(agent)
    later(agent.log, 20)
    say(agent)
    assert last(agent, 5)[:2] == [("user", "Cut off.", False), ("turn_ended", "", True)]


def test_the_lease_of_a_dead_process_ends_no_turn_that_is_about_to_begin(agent: Agent) -> None:
    """The supervisor checks the leases when the turn is registered but has not taken the agent's lease yet."""
    lend(agent, "elsewhere", 1, -20)

    async def program() -> None:
        async with Supervisor(agent.log, lambda _: Model()) as agents:
            said = asyncio.create_task(agents.say(agent, "Go on."))
            await asyncio.sleep(0)
            assert agents.working == [agent.id]
            assert lease(agent).holder == "somebody"
            agents._look_once()
            await said

    asyncio.run(program())


@pytest.mark.parametrize("wait", [lambda agent: interrupt(agent, LIMIT), lambda agent: settled([agent])])
def test_a_wait_for_the_end_of_a_turn_wakes_at_the_commit(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, wait: Callable[[Agent], None]
) -> None:
    monkeypatch.setattr(listening, "LOOK_SECONDS", 10 * LIMIT)  # longer than any wait of this test
    opened = threading.Event()
    watch = agent.log.store.watch

    def watched() -> Watch:
        opened.set()
        return watch()

    monkeypatch.setattr(agent.log.store, "watch", watched)
    with foldmark.open(agent.log.store.address) as other, ThreadPoolExecutor(1) as pool:
        held = take(other.agent("default"), "there")
        waiting = pool.submit(wait, agent)
        assert opened.wait(LIMIT)
        held.give_back()
        waiting.result(LIMIT)


def test_the_doctor_looks_at_leases(agent: Agent) -> None:
    """The lease of a dead process is no damage; a lease on an agent that does not exist is."""
    log = agent.log
    lend(agent, "elsewhere", 1, -20)
    assert list(examine(log)) == []
    connection(log).execute("PRAGMA foreign_keys = OFF")
    connection(log).execute("UPDATE leases SET agent = 99")
    assert [each.text for each in examine(log)] == [
        "database: row 99 of leases names a row of agents that does not exist"
    ]
    connection(log).execute("DELETE FROM leases")


def test_a_lease_is_renewed_while_a_turn_lasts(start: Callable[..., Process], agent: Agent) -> None:
    first = start("0.01", "0.05")
    first.say("default", "Go.")
    begun = lease(agent)
    for _ in range(3):
        before = lease(agent).until
        wait(lambda before=before: lease(agent).until > before)  # type: ignore[misc]
    assert (lease(agent).taken_at, lease(agent).holder) == (begun.taken_at, begun.holder)
    first.tell("answer Done.")
    first.until("done default")


@pytest.mark.parametrize("line", ["answer Done.", "fail", None])
def test_a_lease_is_given_back(start: Callable[..., Process], agent: Agent, line: str | None) -> None:
    """This holds after a completed turn, after an error and after an interruption."""
    first = start("0.01", "30")
    first.say("default", "Go.")
    if line is None:
        interrupt(agent)
        assert first.heard() == "cancelled default"
    else:
        first.tell(line)
        heard = "error default ProviderError The line is dead." if line == "fail" else "done default"
        assert first.heard() == heard
    assert (leases(agent.log), agent.open_turn) == ([], None)


def test_of_two_that_take_an_agent_at_the_same_moment_one_gets_it(
    start: Callable[..., Process], agent: Agent, tmp_path: Path
) -> None:
    """The agent is free or has the lease of a dead process, whose turn is closed only once."""
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    both, flag = (start(), start()), tmp_path / "flag"
    flag.write_bytes(b"\0")
    for number in range(1, 51 if DEEP else 11):
        if number % 2:
            agent.context()
            lend(agent, here().host, gone.pid, 20)
        before = len(events(agent))
        for process in both:
            process.tell(f"take default {flag} {number}")
        for process in both:
            process.until("waiting")
        with flag.open("r+b") as file:
            file.write(bytes([number]))
        heard = [process.heard() for process in both]
        winner = heard.index("took")
        assert heard[1 - winner].startswith(
            f"error LeaseError conversation 'default' is being run by process {both[winner].id} "
        )
        assert [kind for kind, _, _ in last(agent, len(events(agent)) - before or -999)] == ["turn_ended"] * (
            number % 2
        )
        assert lease(agent).process == both[winner].id
        for process in both:
            process.tell("give-back")
            process.until("gone")
    assert leases(agent.log) == []
