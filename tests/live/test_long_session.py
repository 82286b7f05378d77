"""One long session of Claude Code in a real terminal, with every operation in between (SPEC 5.7).

The same script runs twice in the same folder: without Foldmark, and through the gateway with commands in between that
are all taken back at the end. The provider then gets the same messages, and refuses nothing on the way: it checks each
request as the real one does, the binding of thinking included. Skipped without `make clients` or tmux.
"""

import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from plan import Answer, Reply, Say, Stalled, Think, Use
from server import Loopback
from test_interactive import BIN, Screen
from wire_bound import BoundWire

import foldmark
from foldmark.log import Agent
from patience import LIMIT

MODEL = "claude-fable-5-1"
SIGN = ":"
_MADE_UP = re.compile(r"agentId: \w+ |to: '\w+'|duration_ms: \d+")
"""What Claude Code says of a sub-agent, and makes up anew in each run."""


class Model:
    """A model whose answers depend on the newest prompt alone."""

    def __init__(self, wire: BoundWire, work: Path) -> None:
        self.wire, self.work = wire, work

    def __call__(self, body: Any) -> Answer:
        if not body.get("tools"):
            return Reply((Say((self._aside(json.dumps(body["messages"])),)),))
        if "SUBTASK" in json.dumps(body["messages"][0]):
            return Reply((Say(("The task is done.",)),))
        prompt, results = newest_prompt(body)
        thought = Think("Hm.", self.wire.sign(body)) if "thinking" in body else None
        thoughts = (thought,) if thought else ()
        if results:
            return Reply((*thoughts, Say((f"Done: {prompt}",))))
        if prompt.startswith("WAIT"):
            return Stalled((Say(("I begin ",)),))
        if calls := self._calls(prompt):
            return Reply((*thoughts, Say(("Let me see.",)), *calls), stop="calls")
        return Reply((*thoughts, Say((f"Answer: {prompt}",))))

    def _aside(self, said: str) -> str:
        if "the caching experiment" in said:  # which messages match
            return json.dumps([int(id) for id in re.findall(r"(\d+)[^\d\n]{0,60}About caching", said)])
        return "<summary>All that was said.</summary>"

    def _calls(self, prompt: str) -> list[Use]:
        number = prompt.split()[-1]
        if prompt.startswith("READ"):
            paths = [str(self.work / f"{name}.txt") for name in "ab"]
            return [Use(f"toolu_{number}{at}", "Read", {"file_path": path}) for at, path in enumerate(paths)]
        if prompt.startswith("RUN"):
            return [Use(f"toolu_{number}", "Bash", {"command": f"seq {number}", "description": "count"})]
        if prompt.startswith("DELEGATE"):
            task = {"description": "do it", "prompt": "SUBTASK: do it", "subagent_type": "general-purpose"}
            return [Use(f"toolu_{number}", "Agent", task)]
        return []


def newest_prompt(body: Any) -> tuple[str, bool]:
    """The newest prompt of a person, and True if results follow it."""
    results = False
    for message in reversed(body["messages"]):
        if message["role"] != "user":
            continue
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in reversed(blocks):
            results |= block["type"] == "tool_result"
            text = block.get("text", "").strip()
            if text and not text.startswith("<"):
                return text, results
    return "", results


class Session:
    """Claude Code in a terminal; `do` types a command to Foldmark, where there is one."""

    def __init__(self, folder: Path, *, live: bool) -> None:
        self.folder, self.live = folder, live
        self.wire = BoundWire()
        self.upstream = Loopback(self.wire, Model(self.wire, folder / "work"))
        self.typed = 0

    def __enter__(self) -> "Session":
        self.upstream.__enter__()
        self.folder.mkdir()
        self.begin()
        for name in "ab":
            (self.folder / "work" / f"{name}.txt").write_text(f"{name}\n" * 50)
        return self

    def __exit__(self, *error: Any) -> None:
        self.screen.close()
        self.upstream.__exit__(None, None, None)

    def begin(self, *more: str) -> None:
        self.screen = Screen(self.folder, self.upstream.url, *more, live=self.live, model=MODEL)
        self.screen.wait("? for shortcuts")

    def again(self) -> None:
        """End Claude Code, and go on with its newest session."""
        self.screen.close()
        self.begin("--continue")

    def say(self, prompt: str, wanted: str | None = None) -> None:
        self.typed += 1
        answer = f"Answer: {prompt}" if prompt.split()[0] not in ("READ", "RUN", "DELEGATE") else f"Done: {prompt}"
        self.screen.type(prompt, wanted or answer)

    def do(self, command: str, wanted: str) -> None:
        if self.live:
            self.typed += 1
            self.screen.type(SIGN + command, wanted)

    def interrupted(self, prompt: str) -> None:
        self.say(prompt, "esc to interrupt")
        until = time.monotonic() + LIMIT
        while prompt not in json.dumps(self.upstream.asked[-1].body["messages"]):
            assert time.monotonic() < until
            time.sleep(0.1)
        self.screen.press("Escape")
        self.screen.wait("Interrupted")

    def asked(self) -> list[Any]:
        """The messages of the newest request, without thinking, cache marks, and what Claude Code makes up anew."""
        found = [cleaned(each) for each in self.upstream.asked[-1].body["messages"] if each["role"] != "system"]
        return json.loads(_MADE_UP.sub("", json.dumps(found)))  # type: ignore[no-any-return]

    def agent(self, log: foldmark.Log) -> Agent:
        return next(each for each in log.agents() if each.name)


def cleaned(message: Any) -> Any:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    kept = [{name: value for name, value in block.items() if name != "cache_control"} for block in blocks]
    shown = [block for block in kept if block["type"] != "thinking" and not _injected(block)]
    # The results of parallel calls stand in the order in which the tools were done.
    return message["role"], sorted(shown, key=lambda block: str(block.get("tool_use_id", "")))


def _injected(block: Any) -> bool:
    return bool(block["type"] == "text" and block["text"].lstrip().startswith("<system-reminder>"))


def play(session: Session, find: Callable[[str, str], int]) -> None:
    """The script: every line is a step. `find` returns the event of a kind in the turn of a prompt."""
    say, do = session.say, session.do
    say("Hello 1")
    do("context", "nothing taken out")
    say("READ both 2")
    do("mark EARLY", "Checkpoint 'EARLY' created.")
    say("RUN it 30")
    say("About caching 4")
    do(f"drop {find('READ both 2', 'user')} -- not needed", "left the context")
    say("After the drop 5")
    say("DELEGATE it 6")
    do(f"evict {find('RUN it 30', 'tool_result')}", "placeholder")
    say("After the eviction 7")
    session.interrupted("WAIT for it 8")
    say("After the interruption 9")
    do("forget the caching experiment", "caching")
    do("yes", "left the context")
    say("After the forgetting 10")
    do("mark LATE", "Checkpoint 'LATE' created.")
    say("RUN it 11")
    say("A wrong turn 12")
    do("clear LATE", "Rewound to 'LATE'.")
    say("After the rewind 13")
    do("undo", "left the context")
    say("After the undo 14")
    session.again()
    say("After the continuation 15")
    say("READ both 16")
    do("operations", "not needed")


def test_thirty_steps(tmp_path: Path) -> None:
    if not (BIN / "claude").exists() or shutil.which("tmux") is None:
        pytest.skip("claude or tmux is not there: `make clients` installs the one")
    folder = tmp_path / "session"
    with Session(folder, live=False) as plain:
        play(plain, lambda prompt, kind: 0)
        plain.say("The end 17")
        expected = plain.asked()
    folder.rename(tmp_path / "plain")
    with Session(folder, live=True) as session:

        def find(prompt: str, kind: str) -> int:
            with foldmark.open(session.screen.database, settings={}) as log:
                messages = list(session.agent(log).context().messages)
            turn = next(each.turn_id for each in messages if each.content == prompt)
            return next(each.id for each in messages if each.turn_id == turn and each.kind == kind)

        play(session, find)
        with foldmark.open(session.screen.database, settings={}) as log:
            kinds = ("evict", "drop", "filter", "rewind", "undo")
            events = session.agent(log).events(0, 1000)
            operations = [each.id for each in events if each.kind in kinds and each.actor == "human"]
        assert len(operations) == 5
        for operation in reversed(operations):
            session.do(f"restore {operation}", f"Operation {operation} taken back.")
        session.say("The end 17")
        assert session.upstream.refusals == []
        for mine, theirs in zip(session.asked(), expected, strict=True):
            assert mine == theirs
        session.screen.type("/compact", "Compacted")
        session.say("After the compaction 18")
        session.do("operations", "the client no longer sends it")
        assert session.upstream.refusals == []
        assert session.typed >= 30
        sent = json.dumps([each.body["messages"] for each in session.upstream.requests])
        assert not re.search(r":(mark|context|drop|evict|forget|yes|clear|undo|restore|operations)\b", sent)
