"""The overhead of `foldmark live` on a request of 1 MB with 2,000 messages and 50 operations, against a bare forwarder.

The provider is a server in this process that reads the body, waits, and streams two events. Requests alternate between
a gateway that records and one that only forwards; each pair sends the same messages, with one more turn than the pair
before. `delay` is the time from the first byte of the answer at the provider to its first byte at the client. Memory is
that of a gateway in its own process, after a request of 64 MB.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median, quantiles
from threading import Thread
from typing import Any, NamedTuple

import httpx2 as httpx

import foldmark
from foldmark.core.errors import CommandError
from foldmark.live.clients.answers import written_message
from foldmark.live.gateway import Gateway
from foldmark.live.sessions import Sessions
from foldmark.log import Log

MESSAGES, OPERATIONS, PAIRS = 2000, 50, 60
HEADERS = {"x-api-key": "none", "x-claude-code-session-id": "bbbbbbbb-0000"}
LONG = 64 << 20
_ANSWER = written_message("Done.", "msg_1", "claude-sonnet-4-6", stream=True)[1]


class Provider(BaseHTTPRequestHandler):
    """Answers every request with a stream."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    began = 0.0

    def do_POST(self) -> None:
        if "content-length" in self.headers:
            self._read(int(self.headers["content-length"]))
        else:
            while size := int(self.rfile.readline(), 16):
                self._read(size + 2)
            self.rfile.readline()
        time.sleep(0.01)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(_ANSWER)))
        self.end_headers()
        Provider.began = time.perf_counter()
        self.wfile.write(_ANSWER[:200])
        self.wfile.flush()
        time.sleep(0.005)
        self.wfile.write(_ANSWER[200:])

    def _read(self, left: int) -> None:
        while left:
            left -= len(self.rfile.read(min(left, 1 << 20)))

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


class Took(NamedTuple):
    """Milliseconds of one request: until the provider began to answer, and from then until its first byte arrived
    here."""

    asked: float
    delay: float


@contextmanager
def provider() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def transcript() -> list[dict[str, Any]]:
    """Return a megabyte of turns, each with a call and its result."""
    found: list[dict[str, Any]] = []
    for turn in range(MESSAGES // 4):
        call = {"type": "tool_use", "id": f"toolu_{turn}", "name": "Read", "input": {"file_path": f"/src/{turn}.py"}}
        result = {"tool_use_id": f"toolu_{turn}", "type": "tool_result", "content": "line of code\n" * 110}
        found += [
            {"role": "user", "content": f"Prompt {turn}: " + "words " * 20},
            {"role": "assistant", "content": [{"type": "text", "text": "I will read it."}, call]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": [{"type": "text", "text": f"Answer {turn}: " + "words " * 20}]},
        ]
    return found


def body_of(messages: list[dict[str, Any]]) -> bytes:
    *before, last = messages
    mark = {"type": "text", "text": last["content"], "cache_control": {"type": "ephemeral"}}
    rest = {"model": "claude-sonnet-4-6", "max_tokens": 1000, "stream": True, "tools": [{"name": "Read"}]}
    whole = {**rest, "messages": [*before, {"role": "user", "content": [mark]}]}
    return json.dumps(whole, separators=(",", ":")).encode()


def ask(client: httpx.Client, url: str, body: bytes) -> Took:
    began = time.perf_counter()
    with client.stream("POST", f"{url}/v1/messages", headers=HEADERS, content=body) as answer:
        pieces = answer.iter_raw()
        next(pieces)
        first = time.perf_counter()
        for _ in pieces:
            pass
    return Took((Provider.began - began) * 1000, (first - Provider.began) * 1000)


def operate(log: Log) -> int:
    """Drop turns and evict results throughout the context. Return the number of operations."""
    (agent,) = log.agents()
    agent.context()
    messages = list(agent.context().messages)
    turns = [each.turn_id for each in messages if each.kind == "user"][:-1]
    results = [each.id for each in messages if each.kind == "tool_result"]
    done, step = 0, len(turns) // (OPERATIONS // 2)
    for at in range(OPERATIONS // 2):
        for line in (f"/context drop {turns[at * step]}", f"/context evict {results[at * step + 3]}"):
            with suppress(CommandError):
                agent.do(line)
                done += 1
    return done


def overhead(folder: Path, upstream: str) -> None:
    with foldmark.open(folder / "live.db", settings={}) as log:
        sessions = Sessions(log, "bench", upstream)
        bare, own = list[Took](), list[Took]()
        with Gateway(upstream) as plain, Gateway(upstream, sessions=sessions) as gateway, httpx.Client() as client:
            messages = [*transcript(), {"role": "user", "content": "Begin."}]
            ask(client, gateway.url, body_of(messages))
            sessions.settle()
            operations = operate(log)
            for pair in range(PAIRS):
                messages.append({"role": "assistant", "content": [{"type": "text", "text": "Done."}]})
                messages.append({"role": "user", "content": f"Go on {pair}."})
                body = body_of(messages)
                both = [(plain.url, bare), (gateway.url, own)]
                for url, took in both if pair % 2 else reversed(both):
                    took.append(ask(client, url, body))
                    sessions.settle()
        sessions.close()
    print(f"body {len(body):,} bytes, {len(messages):,} messages, {operations} operations, {PAIRS} pairs")
    for name, index in (("request", 0), ("first byte of the answer", 1)):
        more = [mine[index] - other[index] for mine, other in zip(own, bare, strict=True)]
        low, middle, high = quantiles(more, n=4)
        print(
            f"{name}: bare {median(each[index] for each in bare):.2f} ms, live "
            f"{median(each[index] for each in own):.2f} ms, more {middle:+.2f} ms (quartiles {low:+.2f} … {high:+.2f})"
        )


def memory(folder: Path, upstream: str) -> None:
    command = [sys.executable, "-m", "foldmark", "--db", str(folder / "memory.db"), "live", "--serve"]
    served = subprocess.Popen(
        [*command, "--upstream", upstream], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ}
    )
    assert served.stdout is not None
    try:
        url = served.stdout.readline().decode().strip().partition("=")[2]
        with httpx.Client(timeout=120) as client:
            ask(client, url, body_of([{"role": "user", "content": "small"}]))
            before = peak(served.pid)
            for size in (LONG - 1000, LONG + (8 << 20)):
                ask(client, url, body_of([{"role": "user", "content": "x" * size}]))
                print(f"body of {size >> 20} MB: peak {peak(served.pid) - before:,.0f} MB more than {before:,.0f} MB")
    finally:
        served.terminate()
        served.wait()


def peak(process: int) -> float:
    """Return the peak memory of a process in MB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, provider() as upstream:
        overhead(Path(folder), upstream)
        memory(Path(folder), upstream)
