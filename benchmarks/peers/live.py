"""Proxies between a coding agent and its provider: what they change, what that costs, and what it breaks."""

import json
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx2 as httpx
import psutil

import foldmark
from peers.adapter import ADAPTERS, Adapter, PeerError
from peers.environments import ROOT, isolated
from peers.report import Cell, Failure, Ratio, Section, Table
from peers.runs import Run

PEERS = ("headroom", "llmslim", "litellm", "opencode")

ABOUT = """\
A provider on the loopback interface speaks Anthropic's Messages API. It refuses what the API refuses, binds thinking to
what precedes it, caches beginnings at the marks of a request, and bills at the prices of `{model}`. A replayed client
sends each recorded or made session request by request, as Claude Code does: the history that it holds, with marks at
its end and at the end of the message before; the provider answers what the model said in the session. So whatever a
proxy changes is in the next request, too. Before every {pause}th request the person has a break, in which the
provider's cache expires. *20 edits* are drops, evictions and restores at any place and time; *superseded* is
`/context evict --superseded` after each break, which takes out results that a later read or write made stale. The
provider's cache and its checks share no code with Foldmark; its prices are those of Foldmark's table.

*Refused* are requests that the provider answered with an error; the client then sends the request once more without its
thinking, and gives up if that is refused, too. *Rewritten* are bytes that the provider had got with the request before,
and did not get again at the same place; they are *announced* if the person asked for the edit before that request, or
if the provider's answer names it. *Thinking lost* are blocks of the client's history that the last request of a session
lacks. *First byte* is the median time from a request to the first byte of its answer. Memory is the sum of the
peaks of the proxy's processes.
"""

REQUESTS = 60
"""Requests of a session, at most."""

PAUSE = 15
"""Requests between two breaks of the person."""


class Step(NamedTuple):
    """What a client adds before a request, and what the model answers."""

    adds: list[dict[str, Any]]
    answer: list[dict[str, Any]]


def made(seed: int, requests: int) -> list[Step]:
    """Return a session of turns with calls: files that are read again after edits, shell output, failing tests."""
    chance = random.Random(seed)
    words = [
        "parser",
        "line",
        "block",
        "cache",
        "token",
        "window",
        "turn",
        "result",
        "model",
        "edit",
        "file",
        "test",
        "path",
        "error",
        "value",
        "count",
    ]

    def prose(size: int) -> str:
        return " ".join(chance.choice(words) for _ in range(size))

    steps: list[Step] = []
    result: dict[str, Any] | None = None
    for number in range(requests):
        adds = [result] if result else [{"type": "text", "text": f"Task {number}: {prose(40)}."}]
        answer: list[dict[str, Any]] = [{"type": "thinking", "thinking": prose(60)}]
        if chance.random() < 0.75:
            file = f"src/{chance.choice(words)}.py"
            name, given = chance.choice(
                [
                    ("Read", {"file_path": file}),
                    ("Edit", {"file_path": file, "old_string": prose(8), "new_string": prose(9)}),
                    ("Bash", {"command": f"pytest tests/{chance.choice(words)}"}),
                    ("Grep", {"pattern": chance.choice(words)}),
                ]
            )
            answer += [{"type": "text", "text": prose(12)}, _use(number, name, given)]
            lines = {"Edit": 2, "Grep": 60}.get(name, chance.choice([40, 200, 500]))
            text = "\n".join(f"{at:4} {prose(9)}" for at in range(lines))
            result = {"type": "tool_result", "tool_use_id": f"toolu_{number:04}", "content": text}
        else:
            answer.append({"type": "text", "text": prose(120)})
            result = None
        steps.append(Step(adds, answer))
    return steps


def _use(number: int, name: str, given: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{number:04}", "name": name, "input": given}


def recorded(path: Path, most: int) -> list[Step]:
    """Return the last part of a recorded session that no compaction interrupts, as steps: at most `most` of them.

    Calls without a result, and results without a call, are left out, as the client does; so are images.
    """
    messages: list[tuple[str, list[dict[str, Any]]]] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if not isinstance(record, dict) or record.get("isSidechain") or record.get("type") not in ("user", "assistant"):
            continue
        if record.get("isCompactSummary"):
            messages.clear()
        role, message = record["type"], record.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        found = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        kept = [each for each in map(_plain, found) if each]
        if kept and messages and messages[-1][0] == role:
            messages[-1][1].extend(kept)
        elif kept and (messages or role == "user"):
            messages.append((role, kept))
    steps: list[Step] = []
    adds: list[dict[str, Any]] = []
    for at, (role, found) in enumerate(messages):
        before, after = (messages[place][1] if 0 <= place < len(messages) else [] for place in (at - 1, at + 1))
        calls, results = _named(before, "tool_use", "id"), _named(after, "tool_result", "tool_use_id")
        if role == "user":
            own = [each for each in found if each["type"] == "tool_result" and each["tool_use_id"] in calls]
            adds = [*own, *(each for each in found if each["type"] == "text")] or [{"type": "text", "text": "Go on."}]
        else:
            thinks = [each for each in found if each["type"] == "thinking"] or [{"type": "thinking", "thinking": "So."}]
            others = [each for each in found if each["type"] == "text" or each.get("id") in results]
            steps.append(Step(adds, [*thinks[:1], *(others or [{"type": "text", "text": "Done."}])]))
    return steps[:most]


def _named(blocks: Sequence[dict[str, Any]], kind: str, member: str) -> set[str]:
    return {block[member] for block in blocks if block["type"] == kind}


def _plain(block: Any) -> dict[str, Any] | None:
    if not isinstance(block, dict):
        return None
    match block.get("type"):
        case "text" if str(block.get("text", "")).strip():
            return {"type": "text", "text": block["text"]}
        case "thinking":
            return {"type": "thinking", "thinking": block.get("thinking") or "So."}
        case "tool_use" if re.fullmatch(r"[\w-]{1,64}", str(block.get("name"))):
            return {"type": "tool_use", "id": block["id"], "name": block["name"], "input": block.get("input") or {}}
        case "tool_result":
            content = block.get("content")
            if isinstance(content, list):
                content = "\n".join(each["text"] for each in content if each.get("type") == "text")
            return {"type": "tool_result", "tool_use_id": block["tool_use_id"], "content": content or "(nothing)"}
    return None


# -- Replaying


@dataclass
class Told:
    """What one contestant's requests of one session came to."""

    waits: list[float] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    refused: int = 0
    lost: int = 0
    ended: str = ""
    edited: set[int] = field(default_factory=set)
    """The requests before which the person edited."""
    edits: int = 0
    """How many edits were carried out."""


def replay(
    provider: Adapter, url: str, model: str, steps: Sequence[Step], session: str, edit: Callable[[int], bool]
) -> Told:
    """Send a session as its client does. `edit` is called before each request, and says whether it edited."""
    found, history = Told(), list[dict[str, Any]]()
    names = sorted({block["name"] for step in steps for block in step.answer if block["type"] == "tool_use"})
    tools = [{"name": name, "description": name, "input_schema": {"type": "object"}} for name in names or ["Read"]]
    headers = {
        "x-api-key": "none",
        "anthropic-version": "2023-06-01",
        "x-claude-code-session-id": session,
        "user-agent": "claude-cli/2.1.332 (external, cli)",
    }
    bare = False
    with httpx.Client(timeout=60, headers=headers, trust_env=False) as client:
        for number, step in enumerate(steps):
            if number and number % PAUSE == 0:
                provider.ask("pause")
            if edit(number):
                found.edited.add(len(found.requests))
            history.append({"role": "user", "content": step.adds})
            provider.ask("expect", answer=step.answer)
            for attempt in range(2):
                body = {
                    "model": model,
                    "max_tokens": 8000,
                    "stream": True,
                    "thinking": {"type": "adaptive"},
                    "system": [{"type": "text", "text": SYSTEM, "cache_control": MARK}],
                    "tools": tools,
                    "messages": marked(history, bare=bare or bool(attempt)),
                }
                wait, blocks, error = ask(client, url, body)
                if blocks is not None:
                    break
            if blocks is None:
                found.ended = f"request {number + 1}: {error[:200]}"
                break
            bare = bare or bool(attempt)
            found.waits.append(wait)
            history.append({"role": "assistant", "content": blocks})
            found.requests = provider.ask("told")["requests"]
    told = provider.ask("told")
    found.requests, found.refused = told["requests"], len(told["refusals"])
    held = sum(block["type"] == "thinking" for each in history[:-1] for block in each["content"])
    found.lost = held - (found.requests[-1]["thoughts"] if found.requests else 0)
    return found


MARK = {"type": "ephemeral"}
SYSTEM = "You are a coding agent. Read before you write, run the tests, and say what you did. " * 40


def marked(history: Sequence[dict[str, Any]], *, bare: bool) -> list[dict[str, Any]]:
    """Return the messages with marks at the end of the last two of the user; `bare` is without thinking."""
    users = [at for at, each in enumerate(history) if each["role"] == "user"][-2:]
    found = []
    for at, message in enumerate(history):
        content = [each for each in message["content"] if not bare or each["type"] != "thinking"]
        if at in users:
            content = [*content[:-1], {**content[-1], "cache_control": MARK}]
        found.append({**message, "content": content})
    return found


def ask(client: httpx.Client, url: str, body: dict[str, Any]) -> tuple[float, list[dict[str, Any]] | None, str]:
    """Send a request. Return the seconds to the first byte, the blocks of the answer (None: refused), and the error."""
    began = time.perf_counter()
    with client.stream("POST", f"{url}/v1/messages", json=body) as answer:
        if answer.status_code != 200:
            return 0.0, None, answer.read().decode(errors="replace")
        pieces = answer.iter_raw()
        data = next(pieces, b"")
        wait = time.perf_counter() - began
        data += b"".join(pieces)
    blocks: list[dict[str, Any]] = []
    text: list[str] = []
    for line in data.decode().splitlines():
        if not line.startswith("data:"):
            continue
        event = json.loads(line[5:])
        match event.get("type"):
            case "content_block_start":
                blocks.append(dict(event["content_block"]))
                text = []
            case "content_block_delta":
                delta = event["delta"]
                if delta["type"] == "signature_delta":
                    blocks[-1]["signature"] = delta["signature"]
                else:
                    text.append(delta.get("text") or delta.get("thinking") or delta.get("partial_json") or "")
            case "content_block_stop":
                whole, kind = "".join(text), blocks[-1]["type"]
                if kind == "tool_use":
                    blocks[-1]["input"] = json.loads(whole or "{}")
                elif kind in ("text", "thinking"):
                    blocks[-1][kind] = whole
            case "error":
                return wait, None, json.dumps(event)
    return wait, blocks or None, "an answer without a block: " + data[:200].decode(errors="replace")


# -- Contestants


def port() -> int:
    """Return a free port."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Proxy:
    """A proxy's process: its address, and the peak of its memory."""

    def __init__(self, words: Sequence[str], home: Path, url: str | re.Pattern[str], **environment: str) -> None:
        """Start it, and wait until it listens. `url` is its address, or what it prints of it.

        Raises:
            PeerError: It did not begin to listen.
        """
        home.mkdir(parents=True, exist_ok=True)
        self._printed = home / "printed.txt"
        offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "DO_NOT_TRACK": "1"}
        with self._printed.open("wb") as out:
            self.process = subprocess.Popen(
                [*words],
                env=isolated(home, **offline, **environment),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=home,
            )
        try:
            self.url = self._listens(url)
        except BaseException:
            self.close()
            raise

    def _listens(self, url: str | re.Pattern[str]) -> str:
        until = time.monotonic() + 90
        while time.monotonic() < until and self.process.poll() is None:
            if isinstance(url, str):
                host, _, number = url.removeprefix("http://").partition(":")
                with socket.socket() as tried:
                    if tried.connect_ex((host, int(number))) == 0:
                        return url
            elif found := url.search(self._said):
                return found[1]
            time.sleep(0.05)
        lines = self._said.strip().splitlines()
        raise PeerError(lines[-1] if lines else "it does not listen")

    @property
    def _said(self) -> str:
        return self._printed.read_text(encoding="utf-8", errors="replace")

    @property
    def memory(self) -> float:
        """The sum of the peaks of its processes, in MB."""
        try:
            parent = psutil.Process(self.process.pid)
            return sum(map(_peak, (parent, *parent.children(recursive=True))))
        except psutil.Error:
            return 0.0

    def close(self) -> None:
        """End it and its children."""
        try:
            ours = [*psutil.Process(self.process.pid).children(recursive=True)]
        except psutil.Error:
            ours = []
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for each in ours:
            if each.is_running():
                each.kill()


def _peak(process: psutil.Process) -> float:
    """Return the peak of a process in MB; where the system does not tell it, what it uses now."""
    try:
        lines = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        return process.memory_info().rss / (1 << 20)


JSON_URL = re.compile(r'"url": "(http://[^"]+)"')


@dataclass(frozen=True)
class Contestant:
    """Something that a client can use as its provider. `start` gets the provider's address and a folder."""

    name: str
    peer: str
    start: Callable[[Run, str, Path], Proxy | None]
    edits: str = ""
    """How a person edits: "" not at all, "person" 20 times, "superseded" what a later read or write made stale."""


def _forwarder(run: Run, upstream: str, home: Path) -> Proxy:
    return Proxy([sys.executable, str(ADAPTERS / "live_forwarder.py"), upstream], home, JSON_URL)


def _foldmark(run: Run, upstream: str, home: Path) -> Proxy:
    words = [*_command(home), "live", "--serve", "--upstream", upstream]
    return Proxy(words, home, re.compile(r"ANTHROPIC_BASE_URL=(\S+)"), PYTHONPATH=SOURCE)


def _command(home: Path) -> list[str]:
    """Return the words of `foldmark` with the database of a gateway."""
    return [sys.executable, "-m", "foldmark", "--db", str(home / "live.db")]


def _headroom(run: Run, upstream: str, home: Path) -> Proxy:
    at = port()
    words = [
        str(run.peers["headroom"].command("headroom")),
        "proxy",
        "--port",
        str(at),
        "--anthropic-api-url",
        upstream,
    ]
    return Proxy([*words, "--no-rate-limit", "--no-telemetry"], home, f"http://127.0.0.1:{at}")


def _llmslim(run: Run, upstream: str, home: Path) -> Proxy:
    at = port()
    words = [str(run.peers["llmslim"].command("llmslim")), "proxy", "--port", str(at), "--upstream", upstream]
    return Proxy([*words, "--db", str(home / "proxy.db")], home, f"http://127.0.0.1:{at}")


def _litellm(run: Run, upstream: str, home: Path) -> Proxy:
    script = str(ADAPTERS / "live_litellm.py")
    words = [str(run.peers["litellm"].python), script, upstream, str(TRIGGER)]
    return Proxy(words, home, JSON_URL, LITELLM_LOCAL_MODEL_COST_MAP="True")


SOURCE = str(ROOT / "src")
TRIGGER = 30_000
"""Tokens from which on `clear_tool_uses` clears: the usual 100,000 would never be reached in these sessions."""

CONTESTANTS = (
    Contestant("direct", "", lambda run, upstream, home: None),
    Contestant("bare forwarder", "", _forwarder),
    Contestant("foldmark live, no edit", "", _foldmark),
    Contestant("foldmark live, 20 edits", "", _foldmark, "person"),
    Contestant("foldmark live, superseded", "", _foldmark, "superseded"),
    Contestant("headroom", "headroom", _headroom),
    Contestant("llmslim", "llmslim", _llmslim),
    Contestant("LiteLLM, clear_tool_uses", "litellm", _litellm),
)


class Person:
    """Edits a recorded session from a shell, as docs/live.md says."""

    def __init__(self, home: Path, how: str, requests: int, seed: int) -> None:
        self._home, self._how, self._chance = home, how, random.Random(seed)
        places = range(min(6, requests // 2), requests)
        self._at = {
            "": set[int](),
            "person": set(self._chance.sample(places, min(20, len(places)))),
            "superseded": set(range(PAUSE, requests, PAUSE)),
        }[how]
        self.tried = self.done = 0

    def edit(self, number: int) -> bool:
        """Edit before this request if it is one of those, and say whether anything was changed."""
        if number not in self._at:
            return False
        with foldmark.open(self._home / "live.db", create=False, settings={}) as log:
            agent = max(log.agents(), key=lambda each: each.standing().last)
            name, messages = agent.id, list(agent.context().messages)
        turns = [each.turn_id for each in messages if each.kind == "user"][:-1]
        results = [each.id for each in messages if each.kind == "tool_result"][:-1]
        if self._how == "superseded":
            return self._do(name, "/context evict --superseded", "--yes")
        choice = self.tried % 3
        if choice == 2:
            return self._do(name, "/restore")
        if choice == 1 and turns:
            return self._do(name, f"/context drop {self._chance.choice(turns)}")
        return bool(results) and self._do(name, f"/context evict {self._chance.choice(results)}")

    def _do(self, name: str, line: str, *options: str) -> bool:
        words = [*_command(self._home), "do", *options, name, line]
        environment = isolated(self._home, PYTHONPATH=SOURCE)
        ended = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
        self.tried += 1
        self.done += ended.returncode == 0
        return ended.returncode == 0


@dataclass
class Sum:
    """What a contestant came to over all sessions."""

    told: list[Told] = field(default_factory=list)
    memory: float = 0.0
    ledgers: list[tuple[float, float]] = field(default_factory=list)
    """Dollars by `foldmark live --status`, and by the provider's bill."""
    failed: str = ""

    def total(self, name: str) -> int:
        """Return the sum of a figure of all requests."""
        return sum(request[name] for told in self.told for request in told.requests)

    def rewritten(self, *, announced: bool) -> int:
        """Return the bytes that were rewritten, with or without an announcement."""
        return sum(
            request["rewritten"]
            for told in self.told
            for at, request in enumerate(told.requests)
            if (at in told.edited or request["announced"]) == announced
        )

    def dollars(self, prices: Sequence[float]) -> float:
        """Return the bill."""
        return sum(map(_priced(prices), (request for told in self.told for request in told.requests)))


def _priced(prices: Sequence[float]) -> Callable[[dict[str, Any]], float]:
    kinds = ("read", "written", "fresh", "output")
    return lambda request: sum(request[kind] * price for kind, price in zip(kinds, prices, strict=True)) / 1e6


def measure(run: Run) -> Section:
    """Return the section."""
    sessions = _sessions(run)
    sums = {each.name: Sum() for each in CONTESTANTS}
    section = Section("live", "Between an agent and its provider", "")
    model, prices = "", [0.0] * 4
    with tempfile.TemporaryDirectory(prefix="live-") as folder, Adapter("live_provider.py") as provider:
        for number, (name, steps) in enumerate(sessions):
            order = CONTESTANTS[number % 2 :] + CONTESTANTS[: number % 2]
            for each in order:
                if (each.peer and each.peer not in run.peers) or sums[each.name].failed:
                    continue
                place = Path(folder) / f"{number}-{each.name.replace(' ', '-').replace(',', '')}"
                began = provider.ask("start")
                model, prices = began["model"], began["prices"]
                try:
                    _run(run, each, provider, began, place, steps, number, sums[each.name])
                except (PeerError, OSError, httpx.HTTPError, ValueError) as error:
                    sums[each.name].failed = f"{name}: {error}"
                    section.failures.append(Failure(each.name, "replaying a session", f"{name}: {error}"))
                shutil.rmtree(place, ignore_errors=True)
            run.say(f"live: {name}, {len(steps)} requests")
        _report(section, sums, prices, sessions)
        if "opencode" in run.peers:
            _opencode(run, section, provider, Path(folder) / "opencode")
    section.about = ABOUT.format(model=model, pause=PAUSE)
    return section


def _run(
    run: Run,
    each: Contestant,
    provider: Adapter,
    began: dict[str, Any],
    place: Path,
    steps: Sequence[Step],
    number: int,
    found: Sum,
) -> None:
    proxy = each.start(run, began["url"], place)
    try:
        person = Person(place, each.edits, len(steps), number)
        session = f"00000000-0000-4000-8000-{number:012}"
        url = began["url"] if proxy is None else proxy.url
        told = replay(provider, url, began["model"], steps, session, person.edit)
        if proxy is not None:
            found.memory = max(found.memory, proxy.memory)
        told.edits = person.done
        found.told.append(told)
        if told.ended:
            raise PeerError(told.ended)
    finally:
        if proxy is not None:
            proxy.close()
    if each.start is _foldmark:
        words = [*_command(place), "live", "--status", "--json"]
        environment = isolated(place, PYTHONPATH=SOURCE)
        ended = subprocess.run(words, capture_output=True, text=True, env=environment, check=True)
        ledgers = [one["ledger"]["dollars"] for one in json.loads(ended.stdout)["sessions"]]
        found.ledgers.append((sum(ledgers), sum(map(_priced(began["prices"]), told.requests))))


def _opencode(run: Run, section: Section, provider: Adapter, folder: Path) -> None:
    """Let OpenCode read files for one prompt, without and with DCP, whose `compress` the model calls twice."""
    turns = 6 if run.quick else 24
    said: list[list[dict[str, Any]]] = []
    work = folder / "work"
    work.mkdir(parents=True)
    for file in range(5):
        (work / f"file{file}.txt").write_text("".join(f"line {line} of {file}\n" for line in range(300)))
    for turn in range(turns):
        thought = {"type": "thinking", "thinking": f"File {turn % 5} comes next."}
        given = {"filePath": str(work / f"file{turn % 5}.txt")}
        said.append([thought, _use(turn, "read", given)])
        if turn in (turns // 2, turns - 2):
            said.append([{"type": "thinking", "thinking": "That is closed."}, {"type": "compress"}])
    said.append([{"type": "text", "text": "All files are read."}])
    rows: list[tuple[Cell, ...]] = []
    peer = run.peers["opencode"]
    plugin = peer.folder / "node_modules" / "@tarquinen" / "opencode-dcp"
    for name, plugins in (("OpenCode", []), ("OpenCode with DCP", [f"file://{plugin}"])):
        with run.failing(section.failures, name, "reading files"):
            began = provider.ask("start")
            provider.ask("script", answers=said)
            options = {"baseURL": f"{began['url']}/v1", "apiKey": "none"}
            model = {
                "name": "model",
                "limit": {"context": 200_000, "output": 8000},
                "tool_call": True,
                "reasoning": True,
            }
            settings = {
                "provider": {"anthropic": {"options": options, "models": {began["model"]: model}}},
                "model": f"anthropic/{began['model']}",
                "autoupdate": False,
                "share": "disabled",
                "plugin": plugins,
            }
            (work / "opencode.json").write_text(json.dumps(settings))
            home = folder / name.replace(" ", "-")
            words = [str(peer.command("opencode")), "run", "Read the files."]
            try:
                ended = subprocess.run(
                    words,
                    cwd=work,
                    env=isolated(home),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=240,
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                raise PeerError(f"it did not end: {(error.stderr or b'')[-200:].decode(errors='replace')}") from error
            told = provider.ask("told")
            requests, answers = told["requests"], len(told["requests"])
            if answers < turns:
                raise PeerError(ended.stderr.decode(errors="replace")[-300:] or f"it ended after {answers} requests")
            bill = sum(map(_priced(began["prices"]), requests))
            lost = answers - 1 - requests[-1]["thoughts"]
            rewritten = sum(request["rewritten"] for request in requests)
            sums = [sum(request[kind] for request in requests) for kind in ("read", "written", "fresh")]
            rows.append((name, answers, len(told["refusals"]), rewritten, *sums, lost, f"${bill:.3f}"))
    heads = ("", "requests", "refused", "rewritten, bytes", "read", "written", "fresh", "thinking lost", "money")
    note = "One prompt, for which the model reads files one after the other. It calls DCP's tool `compress` twice."
    section.tables.append(Table("OpenCode, and its plugin DCP", heads, rows, note))


def _sessions(run: Run) -> list[tuple[str, list[Step]]]:
    count, requests = (1, 20) if run.quick else (2, REQUESTS)
    found = [(f"made {seed}", made(seed, requests)) for seed in range(count)]
    for path in sorted((run.data / "claude").glob("*.jsonl")) if run.data else ():
        steps = recorded(path, requests)
        if len(steps) >= 8:
            found.append((path.stem, steps))
    return found[:2] if run.quick else found


def _report(
    section: Section, sums: dict[str, Sum], prices: Sequence[float], sessions: Sequence[tuple[str, list[Step]]]
) -> None:
    direct = sums["direct"]
    rows: list[tuple[Cell, ...]] = []
    latency: list[tuple[Cell, ...]] = []
    first: dict[str, float] = {}
    for name, found in sums.items():
        if not found.told or found.failed:
            continue
        rows.append(
            (
                name,
                sum(told.refused for told in found.told),
                found.rewritten(announced=False),
                found.rewritten(announced=True),
                found.total("read"),
                found.total("written"),
                found.total("fresh"),
                sum(told.lost for told in found.told),
                f"${found.dollars(prices):.3f}",
            )
        )
        waits = [wait * 1000 for told in found.told for wait in told.waits[1:]]
        first[name] = statistics.median(waits)
        latency.append((name, first[name], statistics.quantiles(waits, n=10)[-1], found.memory or None))
    heads = (
        "",
        "refused",
        "rewritten, bytes",
        "announced, bytes",
        "read",
        "written",
        "fresh",
        "thinking lost",
        "money",
    )
    section.tables.append(Table("What the provider got and billed (tokens unless said)", heads, rows))
    section.tables.append(
        Table("What a proxy takes", ("", "first byte, ms", "9 of 10 below, ms", "memory, MB"), latency)
    )
    total = sum(len(steps) for _, steps in sessions)
    section.remarks.append(
        f"{len(sessions)} sessions with {total} requests: {', '.join(name for name, _ in sessions)}."
    )
    edits = {name: sum(told.edits for told in found.told) for name, found in sums.items() if found.told}
    done = ", ".join(f"{name} {number}" for name, number in edits.items() if number)
    section.remarks.append(f"Edits that were carried out: {done}.")
    section.remarks.append(
        f"`clear_tool_uses` is what the provider does by itself: it begins at {TRIGGER:,} tokens here, not at 100,000,"
        " keeps 3 results and clears at least 5,000 tokens."
    )
    ours = sums["foldmark live, superseded"]
    if ours.told and not ours.failed:
        section.ratios.append(
            Ratio(
                "live.money",
                "bill of sessions with what became stale taken out",
                ours.dollars(prices),
                direct.dollars(prices),
                "the same sessions without a proxy",
                "$",
                why="An edit in the middle writes the cache behind it anew; it pays only if enough requests follow.",
            )
        )
        bills = {
            each.name: sums[each.name].dollars(prices)
            for each in CONTESTANTS
            if each.peer and sums[each.name].told and not sums[each.name].failed
        }
        if bills:
            least = min(bills, key=lambda name: bills[name])
            why = "It shortens long outputs before the model sees them, so nothing that was cached is written anew."
            section.ratios.append(
                Ratio(
                    "live.money_peer",
                    "the same bill beside another proxy",
                    ours.dollars(prices),
                    bills[least],
                    least,
                    "$",
                    why=why,
                )
            )
    plain = sums["foldmark live, no edit"]
    others = {name: at for name, at in first.items() if not name.startswith(("foldmark", "bare", "direct"))}
    if others and "foldmark live, no edit" in first:
        best = min(others, key=lambda name: others[name])
        why = "Foldmark reads and records each whole request before it passes it on."
        mine = first["foldmark live, no edit"]
        section.ratios.append(
            Ratio("live.latency", "time to the first byte through a proxy", mine, others[best], best, "ms", why=why)
        )
        least = min(others, key=lambda name: sums[name].memory)
        section.ratios.append(Ratio("live.memory", "memory of a proxy", plain.memory, sums[least].memory, least, "MB"))
    pairs = [pair for found in sums.values() for pair in found.ledgers]
    if pairs:
        worst = max(pairs, key=lambda pair: abs(pair[0] / pair[1] - 1) if pair[1] else 1)
        section.ratios.append(
            Ratio(
                "live.ledger",
                f"`foldmark live --status` against the bill, the worst of {len(pairs)} sessions",
                abs(worst[0] / worst[1] - 1) * 100,
                2.0,
                "the goal",
                "%",
                1.0,
            )
        )
