"""The service behind Claude Code's plugins with a session of 2,000 messages: how long the pane waits for it, how long
`foldmark mod` takes, and its memory.

A question goes over the loopback interface, with all messages as JSON. The first one records them. Behind a new turn
the pane is counted anew; otherwise nothing has changed since the newest question.

With a client that loads mods (`make clients`), the session is opened there, and the times from Enter to the pane and to
its rows are taken from the screen, beside that of a view of the client's own. The pane shows the rows that it knows at
once: those of the newest turn, since it was open for the first time.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

import httpx2 as httpx
import psutil

MESSAGES, RUNS = 2000, 5
_MODEL = "claude-sonnet-4-6"


def turn(number: int) -> list[dict[str, Any]]:
    """Return the four messages of a turn with a call."""
    use = {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": {"file_path": f"/work/f{number}.py"}}
    result = {"type": "tool_result", "tool_use_id": use["id"], "content": f"line of file {number}\n" * 40}
    said = ((f"Fix case {number}. " + "word " * 30), f"I read file {number}.", f"Fixed {number}. " + "done " * 40)
    asked, reads, answer = ({"type": "text", "text": text} for text in said)
    return [
        {"role": "user", "content": [asked]},
        {"role": "assistant", "content": [reads, use]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": [answer]},
    ]


def measured(act: Callable[[], object]) -> float:
    """Return the milliseconds that something takes."""
    begun = time.perf_counter()
    act()
    return 1000 * (time.perf_counter() - begun)


def in_the_client() -> None:
    """Measure and print the times from Enter to what the client shows."""
    tests = Path(__file__).parents[1] / "tests"
    os.environ.setdefault("FOLDMARK_CLIENTS", str(tests.parent / ".clients" / "mods"))
    sys.path[:0] = [str(tests / name) for name in (".", "wire", "loopback", "live", "mod")]
    from mod_session import ModScreen, ModSession
    from screens import BIN

    if not (BIN / "claude").exists():
        print("in the client: not measured, `make clients` installs it")
        return
    with tempfile.TemporaryDirectory() as folder, ModSession(Path(folder) / "session", model=_MODEL) as session:
        session.prompt("begin")
        session.screen.close()
        lengthened(session.transcript)
        session.screen = ModScreen(session.folder, session.upstream.url, "--continue", model=_MODEL)
        session.screen.wait_for_prompt("mode on")

        def shown(line: str, *wanted: str) -> list[float]:
            session.screen._tmux("send-keys", "-l", line)
            time.sleep(1)  # the client completes commands
            begun = time.perf_counter()
            session.screen.press("Enter")
            found: list[float] = []
            while len(found) < len(wanted):
                text = session.screen.text
                passed = 1000 * (time.perf_counter() - begun)
                while len(found) < len(wanted) and wanted[len(found)] in text:
                    found.append(passed)
            time.sleep(2)
            session.screen.press("Escape")
            time.sleep(1)
            return found

        heading, rows = shown("/fm", "Context ·", "[ ]")
        later = median(shown("/fm", "Context ·", "[ ]")[1] for _ in range(RUNS))
        own = median(shown("/status", "Session ID")[0] for _ in range(RUNS))
    print(f"in the client: {heading:,.0f} ms from Enter to the first pane, {rows:,.0f} ms to its rows")
    print(f"later: {later:,.0f} ms to the pane with its rows; the client's own `/status`: {own:,.0f} ms")


def lengthened(transcript: Path) -> None:
    """Add turns to a session of Claude Code, up to the number of messages."""
    rows = [json.loads(line) for line in transcript.read_text().splitlines()]
    patterns = {row["type"]: row for row in rows if row["type"] in ("user", "assistant")}
    last = next(row["uuid"] for row in reversed(rows) if row.get("uuid"))
    with transcript.open("a") as file:
        for number in range(MESSAGES // 4):
            for message in turn(number):
                row = {**patterns[message["role"]], "uuid": str(uuid4()), "parentUuid": last}
                row["message"] = {**row["message"], **message}
                if message["role"] == "assistant":
                    row["message"]["id"] = f"msg_{row['uuid']}"
                last = row["uuid"]
                file.write(json.dumps(row) + "\n")


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        variables = {**os.environ, "HOME": folder, "XDG_STATE_HOME": str(home / "state"), "NO_PROXY": "127.0.0.1"}
        words = [sys.executable, "-m", "foldmark", "--db", str(home / "log.db"), "mod"]

        def start() -> dict[str, Any]:
            found: dict[str, Any] = json.loads(
                subprocess.run(words, env=variables, capture_output=True, check=True).stdout
            )
            return found

        cold = measured(start)
        warm = median(measured(start) for _ in range(RUNS))
        address = start()
        service = psutil.Process(address["process"])
        try:
            idle = service.memory_info().rss
            messages = [each for number in range(MESSAGES // 4) for each in turn(number)]
            over = httpx.HTTPTransport(uds=address["socket"] or None)
            with httpx.Client(headers={"x-foldmark-token": address["token"]}, timeout=120, transport=over) as client:

                def ask(name: str, **more: Any) -> Any:
                    about = {"session": "bbbbbbbb-0000", "folder": "/work", "model": _MODEL, "messages": messages}
                    found = client.post(f"{address['url']}/{name}", json={**about, **more}).json()
                    assert "error" not in found, found
                    return found

                first = measured(lambda: ask("pane"))
                unchanged = median(measured(lambda: ask("pane")) for _ in range(RUNS))
                behind = []
                for number in range(RUNS):
                    messages += turn(MESSAGES + number)
                    behind.append(measured(lambda: ask("pane")))
                rows = ask("pane")["rows"]
                ticked = [row["id"] for row in rows[:RUNS]]
                price = median(measured(partial(ask, "price", ticked=[id])) for id in ticked)
            held = service.memory_info().rss
        finally:
            service.terminate()
            service.wait(10)
    print(f"`foldmark mod`: {cold:,.0f} ms if the service does not run yet, {warm:,.0f} ms if it does")
    print(f"the pane of {MESSAGES:,} messages ({len(rows)} rows): {unchanged:,.0f} ms")
    print(f"the same behind a new turn: {median(behind):,.0f} ms; the first time, which records all: {first:,.0f} ms")
    print(f"the price of a ticked turn: {price:,.0f} ms")
    print(f"memory of the service: {idle / 2**20:,.0f} MB idle, {held / 2**20:,.0f} MB with the session")
    in_the_client()


if __name__ == "__main__":
    main()
