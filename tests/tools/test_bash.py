"""`bash` (SPEC 4.1): it needs approval, is limited while it runs, and ends with everything that it started."""

import os
import re
import signal
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen
from time import monotonic

import pytest
from place import Place, in_turn, place_in

import foldmark
from foldmark.core.errors import CommandError
from foldmark.operations.effects import Asking
from foldmark.sending.interruption import Interruption
from foldmark.tools.working import bash
from foldmark.tools.working.bash import HEAD, TAIL, CommandOutput
from patience import LIMIT


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with place_in(tmp_path, monkeypatch) as place:
        yield place


def run(place: Place, command: str, timeout: int = 20) -> str:
    return place.call("bash", command=command, timeout=timeout)


def runs(pid: int) -> bool:
    """Return True if a process exists and is not a zombie of another process."""
    try:
        state, parent = (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return False
    return state != "Z" or int(parent) == os.getpid()


def zombies() -> list[str]:
    """Return this process's children that were not collected."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state == "Z" and int(parent) == os.getpid():
            found.append(str(stat))
    return found


def gone(*pids: int) -> bool:
    """Return True if these processes have ended or end soon: a killed process takes a moment."""
    until = monotonic() + LIMIT
    while any(map(runs, pids)) and monotonic() < until:
        threading.Event().wait(0.005)
    return not any(map(runs, pids)) and not zombies()


def pids(place: Place, count: int) -> list[int]:
    """Return the numbers in the file `pids` once it holds `count` of them."""
    file = place.folder / "pids"
    while not file.exists() or len(file.read_text().split()) < count:
        threading.Event().wait(0.005)
    return [int(each) for each in file.read_text().split()]


def test_output_in_order_and_the_exit_code(place: Place) -> None:
    assert run(place, "echo one; echo two >&2; echo three") == "one\ntwo\nthree\n[exit code 0]"
    assert run(place, "printf 'no end'; exit 3") == "no end\n[exit code 3]"
    assert run(place, "false") == "[exit code 1]"
    assert run(place, "nonsense-command").endswith("command not found\n[exit code 127]")
    assert run(place, "kill -9 $$") == "[ended by SIGKILL]"
    assert run(place, "pwd") == f"{place.folder}\n[exit code 0]"
    assert run(place, "-x").endswith("-x: command not found\n[exit code 127]")
    assert run(place, "printf 'caf\\xe9 \\0 \\xc3\\xa9'") == "caf\ufffd \ufffd é\n[exit code 0]"
    assert run(place, "echo 'a\nb'\nshopt -q extglob; echo $((6 * 7))") == "a\nb\n42\n[exit code 0]"


def test_there_is_no_input_and_no_terminal(place: Place) -> None:
    assert run(place, "cat; read -r x || echo none; tty") == "none\nnot a tty\n[exit code 1]"
    assert "[exit code 1]" in run(place, "echo x 2>/dev/null > /dev/tty")
    own = os.getsid(0)
    assert run(place, f"[ $(ps -o sid= -p $$) != {own} ]") == "[exit code 0]"


def test_the_programs_own_input_is_not_the_commands(place: Place) -> None:
    reading, writing = os.pipe()
    own = os.dup(0)
    try:
        os.dup2(reading, 0)
        assert run(place, "cat", 1) == "[exit code 0]"
    finally:
        os.dup2(own, 0)
        for each in (own, reading, writing):
            os.close(each)


def test_a_person_is_always_asked_and_sees_the_command_as_it_is(place: Place) -> None:
    place.answer = "no"
    told = place.refused("bash", command="echo hi\r\x1b[2K\x1b[1Als\t#\u202e\u200b\necho '\\n' é\n\nrm x")
    assert "the person did not allow bash" in told
    assert place.asked == [
        f"run in {place.folder}:\n  echo hi\\r\\x1b[2K\\x1b[1Als\\t#\\u202e\\u200b\n  echo '\\n' é\n  \n  rm x"
    ]
    place.answer = None
    assert "nobody is there to ask" in place.refused("bash", command="touch x")
    place.answer = "never"
    place.refused("bash", command="touch x")
    place.answer = "yes"
    place.refused("bash", command="touch x")
    assert len(place.asked) == 2
    assert not (place.folder / "x").exists()


def test_always_as_a_setting_is_for_all_commands(place: Place) -> None:
    place.agent.do("/config set tool_approval=ask, bash=always")
    assert run(place, "true; echo other") == "other\n[exit code 0]"
    assert place.asked == []


def test_nobody_is_asked_for_what_cannot_be_run(place: Place) -> None:
    for command in ("", " \n", "a\0b", "x" * 100_001, "é" * 60_000):
        assert place.refused("bash", command=command).startswith("a command must be a text of at most 100,000 bytes")
    assert place.asked == []
    assert run(place, f"x={'y' * 99_000}; echo ${{#x}}") == "99000\n[exit code 0]"


def test_lone_surrogates_do_no_harm(place: Place) -> None:
    assert run(place, "echo \ud800") == "\ufffd\n[exit code 0]"


def test_the_providers_keys_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789")
    monkeypatch.setenv("GEMINI_API_KEY", "gem-0123456789")
    monkeypatch.setenv("MY_OWN", "own-0123456789")
    monkeypatch.setenv("COPY", "x-api-key: sk-ant-0123456789")
    monkeypatch.setenv("PLAIN", "plain")
    config = tmp_path / "config" / "foldmark"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(
        '[providers.mine]\ndialect = "openai"\nbase_url = "http://localhost:1/v1"\nkey_env = "MY_OWN"\n'
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with foldmark.open(":memory:") as log:
        asking = Asking(approve=lambda permission: "yes")
        told = log.agent("home").call_tool("bash", {"command": "env"}, asking=asking)
    assert "PLAIN=plain" in told
    assert "0123456789" not in told
    assert "COPY" not in told


# Much output


def test_memory_is_bounded_while_it_runs(place: Place) -> None:
    tracemalloc.start()
    try:
        told = run(place, "yes 0123456789012345678901234567890123456789 | head -c 100000000")
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert len(told) < HEAD + TAIL + 1000
    assert " bytes left out ...]" in told
    assert told.endswith("\n[exit code 0]")


def test_the_beginning_and_the_end_are_kept(place: Place) -> None:
    told = run(place, "echo first; head -c 1000000 /dev/zero | tr '\\0' x; echo; echo last")
    assert told.startswith("first\nxxx")
    assert told.endswith("xxx\nlast\n[exit code 0]")
    assert f"\n[... {1_000_012 - HEAD - TAIL:,} of 1,000,012 bytes left out ...]\n" in told


@pytest.mark.parametrize("shift", range(4))
def test_no_character_is_cut_in_two(shift: int) -> None:
    output = CommandOutput()
    text = "x" * shift + "€" * 100_000
    data = text.encode()
    for at in range(0, len(data), 65_537):
        output.add(data[at : at + 65_537])
    assert "\ufffd" not in output.text()


def test_what_just_fits_is_whole(place: Place) -> None:
    output = CommandOutput()
    for byte in (b"a", b"b"):
        output.add(byte * HEAD)
    assert output.text() == "a" * HEAD + "b" * TAIL
    output.add(b"c")
    assert "[... 1 of 131,073 bytes left out ...]" in output.text()


# Ends


def test_a_time_limit_ends_all_of_it(place: Place) -> None:
    told = run(place, "echo $$ > pids; sleep 1000 & echo $! >> pids; (sleep 1000 & echo $! >> pids); echo out; wait", 3)
    assert told == "out\n[ended after 3 s, before it was done; `timeout` takes up to 3600]"
    assert gone(*pids(place, 3))


def test_what_is_written_at_the_end_is_kept(place: Place) -> None:
    command = ("bash", "-c", "trap 'echo bye; exit 5' TERM; echo ready; exec 2>/dev/null; while :; do sleep 0.02; done")
    assert bash.run(command, str(place.folder), os.environ, 2.0) == ("ready\nbye\n", "late", 5)


HOLDING = {
    "plain": "sleep 1000",
    "a loop": "while true; do sleep 0.01; done",
    "deaf": "trap '' TERM INT HUP; while true; do sleep 1000; done",
    "background": "sleep 1000 & echo $! >> pids; wait",
    "double-forked": "( (trap '' TERM; echo $BASHPID >> pids; sleep 1000; sleep 1000) & ); sleep 1000",
    "a pipeline": "yes | cat > /dev/null",
    "closed output": "exec > /dev/null 2>&1; sleep 1000",
    "stopped": "kill -STOP $$",
    "its own trap": "trap 'sleep 1000' TERM; sleep 1000",
}


@pytest.mark.parametrize("command", HOLDING.values(), ids=HOLDING)
def test_an_interruption_ends_all_of_it(place: Place, command: str) -> None:
    interruption = Interruption()
    thread, came = in_turn(lambda: run(place, f"echo $$ >> pids; {command}", 1000), interruption)
    found = pids(place, 2 if "pids" in command else 1)
    interruption.happen()
    thread.join(LIMIT)
    assert str(came[0]).endswith("[interrupted before it was done]")
    assert gone(*found)


_KILLED = """
import os, signal, subprocess, sys
from pathlib import Path
from foldmark.tools.working import bash

class Popen(subprocess.Popen):
    def __init__(self, words, **how):
        super().__init__(words, **how)
        if words[-1] == COMMAND:
            while not (Path("pid").exists() and Path("pid").read_text().strip()):
                pass
            os.kill(os.getpid(), signal.SIGKILL)

COMMAND = "echo $$ > pid; " + sys.argv[1]
if sys.argv[2] == "while it starts the command":
    bash.Popen = Popen
bash.run(["/bin/sh", "-c", COMMAND], os.getcwd(), os.environ, 600)
"""


@pytest.mark.parametrize("when", ["while it starts the command", "later"])
@pytest.mark.parametrize("command", ["sleep 600", "trap '' TERM; sleep 600 & sleep 600"])
def test_a_killed_program_leaves_no_command_behind(tmp_path: Path, command: str, when: str) -> None:
    """Nobody can clean up after `kill -9`, as when the memory is full."""
    with Popen([sys.executable, "-c", _KILLED, command, when], cwd=tmp_path) as process:
        until = monotonic() + LIMIT
        while not (written := tmp_path / "pid").exists() or not written.read_text().strip():
            assert monotonic() < until
            threading.Event().wait(0.005)
        group = int(written.read_text())
        process.kill()
    while any(bash._runs_in(group, each / "stat") for each in Path("/proc").glob("[0-9]*")):
        assert monotonic() < until, "the command goes on"
        threading.Event().wait(0.005)


def test_nothing_is_run_in_a_turn_that_was_interrupted(place: Place) -> None:
    interruption = Interruption()
    place.agent.do("/config set tool_approval=always")
    interruption.happen()
    thread, came = in_turn(lambda: run(place, "touch x"), interruption)
    thread.join(LIMIT)
    assert came == ["the turn was interrupted; nothing was run"]
    assert not (place.folder / "x").exists()


@pytest.mark.parametrize("command", ["sleep 1000 & echo $!", "sleep 1000 > /dev/null 2>&1 & echo $!"])
def test_background_processes_end_with_the_command(place: Place, command: str) -> None:
    told = run(place, command)  # returns long before the 1000 seconds are over
    pid, end = told.split("\n")
    assert end == "[exit code 0; what it left running was ended. To keep it running: setsid COMMAND > FILE 2>&1 &]"
    assert gone(int(pid))


def test_background_processes_that_end_soon_are_waited_for(place: Place) -> None:
    assert run(place, "(sleep 0.1; echo late) & echo now") == "now\nlate\n[exit code 0]"
    assert run(place, "echo x | tee >(cat >&2)") == "x\nx\n[exit code 0]"
    assert run(place, "(true &); echo now") == "now\n[exit code 0]"


@pytest.mark.parametrize("more", ["", " > /dev/null 2>&1"])
def test_who_leaves_the_session_stays_and_is_not_waited_for(place: Place, more: str) -> None:
    assert run(place, f"setsid sleep 1000{more} & echo $! > pids; echo out") == "out\n[exit code 0]"
    ((pid),) = pids(place, 1)
    assert runs(pid)
    os.kill(pid, signal.SIGKILL)


def test_a_command_that_closes_its_output_is_waited_for(place: Place) -> None:
    assert run(place, "exec >&- 2>&-; sleep 0.1; exit 4") == "[exit code 4]"
    command = ("bash", "-c", "exec >&- 2>&-; sleep 1000")
    assert bash.run(command, str(place.folder), os.environ, 0.1) == ("", "late", -signal.SIGTERM)


def test_nothing_is_left_open(place: Place) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    run(place, "sleep 1000 &")
    run(place, "true")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert zombies() == []


def test_a_missing_shell_is_an_error(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foldmark.tools.working.bash.shutil.which", lambda name: str(place.folder / "nowhere"))
    assert re.fullmatch(r"sh: .*/nowhere: .*not found\n\[exit code 127\]", run(place, "true"))


def test_a_missing_folder_is_an_error(place: Place) -> None:
    with pytest.raises(CommandError, match=r"^the command cannot be started: No such file or directory$"):
        bash.run(["/bin/sh", "-c", "true"], str(place.folder / "nowhere"), {}, 10)


def test_on_windows_it_is_not_there(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    assert place.refused("bash", command="dir") == "bash is not available on Windows; go on without it"
    assert place.asked == []


def test_a_turn_records_it_without_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that a command obtains in another way is hidden where its output is recorded."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789")
    with foldmark.open(tmp_path / "log.db") as log:
        agent = log.agent("home")
        agent.append("user", "go")
        agent.append_tool_call("bash", {"command": "x"}, call_id="c")
        command = {"command": "printf 'sk-ant-'; echo 0123456789"}
        agent.append_tool_result("c", agent.call_tool("bash", command, asking=Asking(approve=lambda permission: "yes")))
        assert [m.content for m in agent.context().messages][-1] == "[ANTHROPIC_API_KEY]\n[exit code 0]"


def test_constants_keep_the_promise() -> None:
    """Within a second, an interruption is noticed, and the command asked to end, killed and collected."""
    assert bash.TICK + 2 * bash.GRACE < 0.8
