"""Judge whether an import shows what the client sends: `python tests/sessions/judge.py FILE...`.

The judge gives a copy of a session to its real client, which resumes it against a provider on the loopback interface,
through a gateway that records into an empty log. The messages of that request are the truth. Four others have to agree
with them: the context of an import, what the client sends when it resumes an export of that context or a trimmed copy
of the session, and the context that the gateway recorded. `test_every_reader.py` compares the other readers with an
import, for which no client is needed.

Messages are compared as `Item`s, in order. This is left out of the comparison, each for its reason:

- The prompt of the judge, and everything behind it: it is not in the session.
- Items that the client also sends in a session with nothing but a greeting (`_own`), in the same folder with the same
  model: reminders, the date, lists of agents and skills.
- Instructions of the role `developer` or `system`: they are the client's own, and an import does not read them.
- Cache marks, ids of items, `status`, and Codex's notes about its own items: the client makes them anew.
- White space around a text, and texts of only white space, which no provider accepts.
- The place of an image or document among the texts of one message, or in a result: a log keeps both apart.
- The order of results that follow each other: each names its call.
- Reasoning without its encrypted content, which no model can read.
- What the newest client adds around the notification of a task (`NOTIFIED`).
- Calls at the end without a result, and the result that the newest client makes up for them (`ENDED`). 2.1.197 leaves
  these calls out, and the file does not say which of the two will resume it (docs/development/decisions/0039).
- Words that versions of the client choose differently for an attachment without its texts (`REWORDED`).
- Texts that a newer version of the client has recorded (`_newer`), where this version does not send them.
- Texts that a client or an export adds by itself (`ADDED`).
- References to tools (`REFERENCES`): the judge's client does not have these tools, and says so in their place.
- The text that a log shows in place of a compaction that only its provider can read (`OPAQUE`).
- The thinking of an export: it is valid only for the model and the conversation that it was made for.
- What a trim has cut, if it begins as the whole does: in a result, or in an argument of a call.
"""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from difflib import SequenceMatcher
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("", "live", "loopback", "wire", "terminal")]

from codex_wire import CodexWire
from plan import Reply, Say
from running import Running
from screens import BIN
from wire_anthropic import AnthropicWire

import foldmark
from foldmark.core.assembly.eviction import OPAQUE, RESPONSES, blocks_of, in_place
from foldmark.core.assembly.prompt import OMITTED
from foldmark.core.errors import FoldmarkError
from foldmark.core.events import Event
from foldmark.formats.claude.told import REMINDER, told
from foldmark.formats.places import recognize, recognized_in, session_path
from foldmark.formats.session_file import SessionFile
from foldmark.live.live_agent import agent_named
from foldmark.sessions.conversion.exporting import SYNTHETIC, export
from foldmark.sessions.conversion.importing import import_session
from foldmark.sessions.trim.job import TrimOptions
from foldmark.sessions.trim.trimming import trim
from foldmark.wires.lenient_json import member
from foldmark.wires.responses import CALLS, RESULTS, as_json, tool_of
from patience import LIMIT

PROMPT = "JUDGE: go on."
ANSWER = "JUDGED."

BESIDE = ("image", "document", "file")
"""Kinds of items that stand beside a text."""

NOTIFIED = "<system-reminder>\n[SYSTEM NOTIFICATION"
"""The beginning of what Claude Code 2.1.332 sends around the notification of a task."""

ENDED = ("[Tool call interrupted: the session ended before", "[Tool call result not in this copy:")
"""Beginnings of the results that Claude Code 2.1.332 makes up for calls that have none when a session ends."""

_EDITED = "( was modified, either by the user or| changed on disk since you last read it)"
REWORDED = (
    (rf"{_EDITED}.*?(?=Here are the relevant changes)", ""),
    (rf"{_EDITED}.*?content\.(?=\n</)", ""),
    (r"(?<=Today's date is now .{10}\. )(DO NOT mention this to the user explicitly|No need to announce)[^\n]*", ""),
)
"""Patterns of what versions of Claude Code word differently when they make the text of an attachment, and what is
compared instead."""

_CUT = "... [TRIMMED by Foldmark: "

REFERENCES = "[Tool references removed"
"""The beginning of what Claude Code sends for references to tools that it does not have."""

ADDED = (
    "<system-reminder>\nThe task tools haven't been used recently.",  # after a number of calls without them
    "<system-reminder>\nAvailable agent types for the Agent tool",  # as `_own`, in other words for other models
    "<system-reminder>\nThe following skills are available",
    "Continue from where you left off.",  # in place of a turn that was interrupted, with the answer to it
    "No response requested.",
    "(no content)",  # in place of a message of which nothing is left
    OMITTED,  # Foldmark's own, before a session that begins with an answer: an exported one begins with the user
)
"""Beginnings of texts that a client or an export adds, whatever the session says."""


class Item(NamedTuple):
    """A part of a message: its kind (a role, `call`, `result`, `thinking` or the type of a block), and its content."""

    kind: str
    text: str

    def __str__(self) -> str:
        text = " ".join(self.text.split())
        return f"{self.kind}: {text if len(text) <= 90 else f'{text[:60]} … {text[-25:]}'}"


class RefusedError(Exception):
    """The client did not resume the session."""


class Verdict(NamedTuple):
    """The items that the client sends, and those of the three others. `refused`: the client does not resume it."""

    client: list[Item]
    others: dict[str, list[Item]]
    refused: str = ""
    newer: frozenset[Item] = frozenset()

    def differences(self, name: str) -> list[str]:
        """Return a line for each item that is missing (-) or too much (+) in comparison with the client."""
        theirs, ours = self.client, self.others[name]
        ours = [item for item in ours if item not in self.newer or item in theirs]
        if name == "export":
            theirs, ours = _without_thinking(theirs), _without_thinking(ours)
        if name == "trim":
            theirs = _as_cut(theirs, ours)
        found = []
        for how, a, b, c, d in SequenceMatcher(None, theirs, ours, autojunk=False).get_opcodes():
            if how != "equal":
                found += [f"- {item}" for item in theirs[a:b]] + [f"+ {item}" for item in ours[c:d]]
        return found


def judge(path: Path, folder: Path) -> Verdict:
    """Judge a session. `folder` is empty, and gets everything that the clients and Foldmark write."""
    with SessionFile(path) as session:
        kind = recognize(session)
    others: dict[str, list[Item]] = {}
    refused, sent = "", list[Item]()
    try:
        sent, others["live"] = _resumed(CLIENTS[kind.name], path, folder / "client")
    except RefusedError as error:
        refused = str(error)
    with foldmark.open(":memory:", settings={}) as log:
        agent = log.agent(import_session(log, path).agent_id)
        others["import"] = items_of(agent.context().messages)
        written = folder / f"{uuid4()}.jsonl"
        try:
            written.write_bytes(b"".join(export(agent, folder, "1", written.stem).content()))
            others["export"], _ = _resumed(CLIENTS["claude"], written, folder / "exported")
        except (FoldmarkError, RefusedError) as error:
            others["export"] = [Item("refused", str(error))]
    if not refused:
        try:
            others["trim"], _ = _resumed(CLIENTS[kind.name], _trimmed(path, folder / "trim"), folder / "trimmed")
        except (FoldmarkError, RefusedError) as error:
            others["trim"] = [Item("refused", str(error))]
    return Verdict(sent, others, refused, _newer(path, CLIENTS[kind.name]))


def _trimmed(path: Path, folder: Path) -> Path:
    """Return a copy of a session of which a trim has cut what it can; the copy as it is if that is nothing."""
    folder.mkdir()
    copy = folder / path.name
    copy.write_bytes(path.read_bytes())
    options = TrimOptions(500, ("Read", "Bash", "Grep", "Glob"), deep=True)
    with SessionFile(copy) as file:
        session = recognized_in(file, session_path(copy))
        return trim(session, file, options, str(uuid4()), datetime.now(UTC)).session.path


def _newer(path: Path, client: Client) -> frozenset[Item]:
    """Return the texts that a newer version of the client than this one has recorded."""
    records = [json.loads(line) for line in path.read_bytes().splitlines() if _is_json(line)]
    newer = [each for each in records if _numbers(str(each.get("version", ""))) > _numbers(client.version)]
    told_by = [text for record in newer if record.get("type") == "attachment" for text in told(record) or ()]
    return frozenset(item for text in told_by for item in _filled("user", text))


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdecimal()]


# -- The clients


class Client(NamedTuple):
    """A client: its name, its wire, and the member of a request that holds its messages."""

    name: str
    member: str

    def wire(self) -> Any:
        return _AnyClaude() if self.name == "claude" else _AnyCodex()

    def command(self, url: str, home: Path, session: Path) -> tuple[list[str], dict[str, str]]:
        """Return the words and variables that resume a session."""
        if self.name == "claude":
            quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
            reached = agent_named("claude").variables(url)
            # What a client tells its model depends on the model, and a newer client resumes with its own default.
            model = _claude_model([json.loads(line) for line in session.read_bytes().splitlines() if _is_json(line)])
            asked = [] if model == SYNTHETIC else ["--model", model]
            words = ["--resume", str(session), *asked, "-p", PROMPT]
            return words, {"ANTHROPIC_API_KEY": "sk-planted", **quiet, **reached}
        # With a login, Codex keeps its own provider; it refuses to resume a session with another one.
        login = home / ".codex" / "auth.json"
        login.parent.mkdir(exist_ok=True)
        login.write_text(json.dumps({"auth_mode": "apikey", "OPENAI_API_KEY": "sk-planted"}))
        options = agent_named("codex").options(f"{url}/v1", {"HOME": str(home)})
        resumed = ["exec", "resume", _thread(session), "--skip-git-repo-check"]
        return [*resumed, *options, "-c", 'model="gpt-5.1"', PROMPT], {}

    def place(self, session: Path, home: Path) -> Path:
        """Return the place at which the client finds a copy of a session."""
        if self.name == "claude":
            return home / f"{uuid4()}.jsonl"
        return home / ".codex/sessions/2026/01/01" / f"rollout-2026-01-01T00-00-00-{_thread(session)}.jsonl"

    def greeting(self, session: Path) -> bytes:
        """Return a session with nothing but a greeting, by the same model and version as `session`."""
        records = [json.loads(line) for line in session.read_bytes().splitlines() if _is_json(line)]
        return b"".join(json.dumps(line).encode() + b"\n" for line in _GREETINGS[self.name](records))

    @property
    def version(self) -> str:
        package = (BIN / self.name).resolve().parents[1] / "package.json"
        return str(json.loads(package.read_bytes())["version"])

    @property
    def is_there(self) -> bool:
        return (BIN / self.name).exists()


PINNED = "FOLDMARK_CLIENTS" not in os.environ
"""True with the clients of `make clients`, whose rules imports follow."""

CLIENTS = {name: Client(name, member) for name, member in (("claude", "messages"), ("codex", "input"))}


def _claude_model(records: list[Any]) -> str:
    """Return the model of the newest answer; `SYNTHETIC` if no answer has one."""
    models = [str(member(each, "message", "model")) for each in records if each.get("type") == "assistant"]
    return next((each for each in reversed(models) if each not in ("None", SYNTHETIC)), SYNTHETIC)


def _claude_greeting(records: list[Any]) -> list[dict[str, Any]]:
    model = _claude_model(records)
    about: dict[str, Any] = {"isSidechain": False, "sessionId": str(uuid4()), "timestamp": "2026-01-01T00:00:00.000Z"}
    about["version"] = next((each["version"] for each in reversed(records) if "version" in each), "2.1.197")
    first, second = str(uuid4()), str(uuid4())
    content = [{"type": "text", "text": "Hi."}]
    answer: dict[str, Any] = {"id": "msg_0", "type": "message", "role": "assistant", "content": content}
    answer |= {"model": model, "stop_reason": "end_turn", "stop_sequence": None}
    said = {"role": "user", "content": "Hi."}
    user: dict[str, Any] = {"message": said, "uuid": first, "parentUuid": None}
    return [
        {**about, "type": "user", **user},
        {**about, "type": "assistant", "message": answer, "uuid": second, "parentUuid": first},
    ]


def _codex_greeting(records: list[Any]) -> list[dict[str, Any]]:
    about = {"timestamp": records[0]["timestamp"], "type": "response_item"}
    said = (("user", "input_text"), ("assistant", "output_text"))
    items = [{"type": "message", "role": role, "content": [{"type": type, "text": "Hi."}]} for role, type in said]
    return [records[0], *({**about, "payload": item} for item in items)]


_GREETINGS = {"claude": _claude_greeting, "codex": _codex_greeting}


class _AnyClaude(AnthropicWire):
    """The session may be damaged, so no request is refused."""

    def refuse(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> None:
        return None


class _AnyCodex(CodexWire):
    def refuse(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> None:
        return None


class _Recorded(Running[Any, str]):
    """A gateway that records, with the provider behind it."""

    def __init__(self, folder: Path, client: Client, database: str) -> None:
        self.folder, self.database = folder, database
        super().__init__(folder, client.wire(), lambda _: Reply((Say((ANSWER,)),)), str)

    def run(self, client: Client, session: Path) -> list[Item]:
        """Return the items of the client's request with the judge's prompt. Raises RefusedError."""
        home, work = self.folder / "home", self.folder / "work"
        words, variables = client.command(self.gateway.url, home, session)
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
        ended = subprocess.run(
            [BIN / client.name, *words],
            env={**kept, "HOME": str(home), "NO_PROXY": "127.0.0.1", **variables},
            cwd=work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        for received in reversed(self.upstream.asked):
            messages = received.body.get(client.member)
            if received.body.get("tools") and PROMPT in json.dumps(messages):
                return _theirs(client, messages)
        lines = (ended.stderr.strip() or ended.stdout.strip()).splitlines()
        raise RefusedError(lines[-1] if lines else f"exit code {ended.returncode} and no request")


def _resumed(client: Client, session: Path, folder: Path) -> tuple[list[Item], list[Item]]:
    """Return the items that a client sends when it resumes a session, and those of the context that is recorded of
    them, both without the client's own. Raises RefusedError."""
    for name in ("home", "work"):
        (folder / name).mkdir(parents=True)
    own, _ = _run(client, client.greeting(session), session, folder, "own.db")
    sent, recorded = _run(client, session.read_bytes(), session, folder, "live.db")
    left = Counter(own) - Counter([Item("user", "Hi."), Item("assistant", "Hi.")])
    return _session_only(sent, left), _session_only(recorded, left)


def _run(client: Client, content: bytes, session: Path, folder: Path, database: str) -> tuple[list[Item], list[Item]]:
    """Return the items that a client sends when it resumes a session with this content, and those recorded of them."""
    copy = client.place(session, folder / "home")
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(content)
    running = _Recorded(folder, client, database)
    with running.upstream, running.log:
        try:
            sent = running.run(client, copy)
            running.settle()
            agents = [agent for agent in running.log.agents() if agent.name]
            return sent, items_of(agents[0].context().messages) if agents else []
        finally:
            running.end()


def _session_only(items: Iterable[Item], own: Mapping[Item, int]) -> list[Item]:
    """Return the items before the judge's prompt, without the client's own."""
    left, found = Counter(own), list[Item]()
    for item in items:
        if item == Item("user", PROMPT):
            break
        if left[item]:
            left[item] -= 1
        else:
            found.append(item)
    ended = {item.text.partition(" ")[0] for item in found if _is_ended(item)}
    return _ordered([item for item in found if not (_is_ended(item) or _calls_one_of(ended, item))])


def _is_ended(item: Item) -> bool:
    return item.kind == "result" and item.text.partition(" ")[2].startswith(ENDED)


def _calls_one_of(ids: Container[str], item: Item) -> bool:
    return item.kind == "call" and item.text.partition(" ")[0] in ids


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _thread(session: Path) -> str:
    with session.open("rb") as file:
        return str(json.loads(file.readline())["payload"]["id"])


# -- Items


def items_of(events: Iterable[Event]) -> list[Item]:
    """Return the items of a context."""
    return _ordered([item for event in in_place(events) for item in _event_items(event)])


def _event_items(event: Event) -> Iterator[Item]:
    data = event.data or {}
    blocks = [block for block in data.get("blocks", ()) if isinstance(block, dict)]
    if native := blocks_of(event, RESPONSES):
        yield from _codex_items(list(native))
    elif event.kind == "tool_call":
        yield _call(event.call_id, str(data.get("name")), json.loads(event.content))
    elif event.kind == "tool_result":
        yield _result(event.call_id, [event.content, *blocks])
    elif event.kind != "system":
        yield from _blocks(blocks)
        yield from _filled("assistant" if event.role == "assistant" else "user", event.content)


def _theirs(client: Client, messages: list[Any]) -> list[Item]:
    return _ordered(list((_claude_items if client.name == "claude" else _codex_items)(messages)))


def _claude_items(messages: list[Any]) -> Iterator[Item]:
    for message in messages:
        role, content = message["role"], message["content"]
        for each in [content] if isinstance(content, str) else content:
            block = {"type": "text", "text": each} if isinstance(each, str) else each
            kind = block.get("type")
            if role == "system":
                continue
            if kind == "text":
                yield from _filled(role, block["text"])
            elif kind == "tool_use":
                yield _call(block["id"], block["name"], block["input"])
            elif kind == "tool_result":
                yield _result(block["tool_use_id"], block.get("content") or "")
            else:
                yield from _blocks([block])


def _codex_items(items: list[Any]) -> Iterator[Item]:
    for item in items:
        kind, role = item.get("type", "message"), item.get("role")
        if role in ("developer", "system"):
            continue
        if kind == "message":
            content = item["content"]
            for part in [{"type": "input_text", "text": content}] if isinstance(content, str) else content:
                yield from _filled(role, part["text"]) if "text" in part else _blocks([part])
        elif kind in CALLS and "call_id" in item:
            given = item.get(CALLS[kind].given)
            arguments = {"input": given} if kind == "custom_tool_call" else _without_nulls(_parsed(given))
            yield _call(item["call_id"], tool_of(item), arguments)
        elif kind in RESULTS and "call_id" in item:
            answer = item[CALLS[RESULTS[kind]].answer]
            yield _result(item["call_id"], answer if isinstance(answer, str | list) else as_json(answer))
        else:
            yield from _blocks([item])


def _without_nulls(value: Any) -> Any:
    """Return the arguments without members that are null: Codex adds them for a shell's action."""
    return {key: each for key, each in value.items() if each is not None} if isinstance(value, dict) else value


def _call(call_id: str | None, name: str, arguments: Any) -> Item:
    return Item("call", f"{call_id} {name} {json.dumps(arguments, sort_keys=True)}")


def _result(call_id: str | None, content: Any) -> Item:
    """Return the item of a result: its text, and then its media."""
    parts = [{"text": each} if isinstance(each, str) else each for each in _listed(content)]
    texts = [part["text"] for part in parts if "text" in part]
    others = _blocks(part for part in parts if "text" not in part)
    text = "\n".join(texts).strip()
    text = REFERENCES if text.startswith(REFERENCES) else text
    return Item("result", " ".join(filter(None, [call_id, text, *(each.text for each in others)])))


def _listed(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]


def _filled(kind: str, text: str) -> Iterator[Item]:
    text = text.strip()
    if text.startswith(NOTIFIED) and "<task-" in text:
        text = text[text.index("<task-") :].removesuffix("</system-reminder>").strip()
    for pattern, instead in REWORDED if text.startswith(REMINDER) else ():
        text = re.sub(pattern, instead, text, count=1, flags=re.DOTALL)
    if text and text != OPAQUE and not text.startswith(ADDED):
        yield Item(kind, text)


def _blocks(blocks: Iterable[Any]) -> Iterator[Item]:
    """Yield the items of anything else, by what matters to the provider."""
    for block in blocks:
        kind = str(block.get("type"))
        source = block.get("source") or {}
        data = block.get("image_url") or block.get("file_data") or source.get("data")
        if isinstance(carried := block.get("block"), dict):
            yield from _blocks([carried])
        elif kind == "tool_reference":
            yield Item(kind, REFERENCES)
        elif kind in ("thinking", "redacted_thinking", "reasoning"):
            if kept := block.get("signature") or block.get("data") or block.get("encrypted_content"):
                yield Item("thinking", kept)
        elif kind in ("compaction", "compaction_summary"):
            yield Item("compaction", str(block.get("encrypted_content")))
        elif isinstance(data, str):
            bare = data.rpartition("base64,")[2]
            yield Item(kind.removeprefix("input_"), blake2b(bare.encode(), digest_size=8).hexdigest())
        elif kind != "phase":
            left = {name: value for name, value in block.items() if name not in _MADE_ANEW}
            yield Item(kind, json.dumps(left, sort_keys=True))


_MADE_ANEW = ("cache_control", "id", "status", "internal_chat_message_metadata_passthrough", "imported", "after")


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return text


def _ordered(items: list[Item]) -> list[Item]:
    """Return the items with the media of a side before its texts, and results in the order of their calls' ids."""
    found: list[Item] = []
    for item in items:
        at = len(found)
        while item.kind in BESIDE and at and found[at - 1].kind == "user":
            at -= 1
        while item.kind == "result" and at and found[at - 1].kind == "result" and found[at - 1].text > item.text:
            at -= 1
        found.insert(at, item)
    return found


def _as_cut(whole: Sequence[Item], cut: Sequence[Item]) -> list[Item]:
    """Return the items, with those instead of which a cut one begins as they do."""
    left = {(item.kind, item.text.partition(" ")[0]): item for item in cut if _CUT in item.text}
    found = []
    for item in whole:
        short = left.get((item.kind, item.text.partition(" ")[0]), item)
        begins = item.text.startswith(short.text.partition(_CUT)[0].rstrip().removesuffix("\\n")) or item.kind == "call"
        found.append(short if begins else item)
    return found


def _without_thinking(items: Iterable[Item]) -> list[Item]:
    return [item for item in items if item.kind != "thinking"]


# -- The command


def report(path: Path, verdict: Verdict, most: int = 12) -> str:
    """Return the verdict in lines: for each of the three, whether it agrees, or its differences."""
    if verdict.refused:
        return f"{path.name}: the client does not resume it: {verdict.refused}"
    lines = [f"{path.name}: the client sends {len(verdict.client)} items"]
    for name in sorted(verdict.others):
        found = verdict.differences(name)
        lines.append(f"  {name:6}  {f'{len(found)} differences' if found else 'the same'}")
        lines += [f"          {each}" for each in found[:most]]
        lines += [f"          … {len(found) - most} more"] if len(found) > most else []
    return "\n".join(lines)


def main(paths: list[str]) -> int:
    """Print the verdict of each file. Return 1 if anything differs."""
    if not paths:
        print(__doc__)
        return 2
    logging.getLogger("foldmark").setLevel(logging.ERROR)
    worst = 0
    for each in paths:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            try:
                verdict = judge(Path(each), Path(folder))
            except (FoldmarkError, OSError) as error:
                print(f"{each}: {error}")
                worst = 1
                continue
        print(report(Path(each), verdict), flush=True)
        worst = max(worst, bool(verdict.refused or any(map(verdict.differences, verdict.others))))
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
