"""Thirty steps of Gemini CLI, scripted in long_session.py, and its automatic compression (SPEC 5.7). Skipped without
`make clients` or tmux.

The provider checks each request as Gemini 3 does: signatures have to come back with the parts that they belong to.
"""

import json
import re
import shutil
from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from gemini_client import UNSIGNED, joined
from gemini_screen import GeminiScreen
from long_session import LongClient, LongSession, conversation, forgotten, run
from plan import Answer, Http, Part, Reply, Say, Think, Use
from screens import BIN
from wire_gemini import GeminiWire

from foldmark.core.request import Usage

MODEL = "gemini-3.8-flash"
LARGE = 600_000
"""Tokens of a request at which Gemini CLI compresses its history automatically: more than half of 1,048,576."""

SNAPSHOT = "<state_snapshot>All that was said.</state_snapshot>"


def signature_of(said: object) -> str:
    """Return the signature of a text or a call, which is the same in each run."""
    return b64encode(sha256(json.dumps(said, sort_keys=True).encode()).digest()).decode()


class SigningWire(GeminiWire):
    """A Gemini 3 model that signs the text of an answer and the first of its calls, and accepts only these signatures.

    A request to `generateContent` asks for a compression. Two faults are accepted, since Gemini CLI 0.61 sends them
    without Foldmark, too: repeated responses in a resumed session, and neighbours of one role in a request for a
    compression.
    """

    model = MODEL

    def refuse(self, path: str, headers: Any, body: dict[str, Any]) -> Http | None:
        contents = list(map(without_repeats, body["contents"]))
        streamed = path.replace(":generateContent", ":streamGenerateContent?alt=sse")
        if path != streamed:
            contents = joined(contents)
        refused = super().refuse(streamed, headers, {**body, "contents": contents})
        if refused is None and (wrong := next(_wrongly_signed(contents), None)):
            refused = self.error(400, f"Thought signature is not valid: {json.dumps(wrong)}")
        if refused is not None or path == streamed:
            return refused
        candidate = {"content": {"parts": [{"text": SNAPSHOT}], "role": "model"}, "finishReason": "STOP", "index": 0}
        return Http(200, {"content-type": "application/json"}, json.dumps({"candidates": [candidate]}).encode())

    def unfinished(self, parts: tuple[Part, ...], body: dict[str, Any]) -> Iterator[bytes]:
        signed = False
        for part in parts:
            if isinstance(part, Say):
                text = "".join(part.pieces)
                said = {"text": text, "thoughtSignature": signature_of(text)}
                yield self.event({"candidates": [{"content": {"parts": [said], "role": "model"}, "index": 0}]})
            elif isinstance(part, Use) and not signed:
                signed = True
                own = signature_of([part.call_id, part.name, part.args])
                yield from super().unfinished((part._replace(signature=own),), body)
            else:
                yield from super().unfinished((part,), body)


def without_repeats(content: Any) -> Any:
    parts: list[Any] = []
    for part in content["parts"]:
        if "functionResponse" not in part or part not in parts:
            parts.append(part)
    return {**content, "parts": parts}


def _wrongly_signed(contents: list[Any]) -> Iterator[Any]:
    """Yield the parts with a signature that does not belong to them."""
    asked = [place for place, content in enumerate(contents) if content["role"] == "user" and _typed(content)]
    for place, content in enumerate(contents):
        for part in content["parts"]:
            own, call = part.get("thoughtSignature"), part.get("functionCall")
            # In requests outside the conversation, Gemini CLI leaves the names of tools before the ids.
            said = part.get("text") if call is None else [call["id"].split("__")[-1], call["name"], call["args"]]
            # A client that has lost a signature says so, but not in the current turn.
            if own is not None and own != signature_of(said) and (own != UNSIGNED or place > asked[-1]):
                yield part


def _typed(content: Any) -> list[str]:
    """Return the texts that a person typed, and the question of a compression."""
    return [text for part in content["parts"] if (text := part.get("text", "").strip()) and text[0] != "<"]


class GeminiCli(LongClient):
    """Gemini CLI, which takes back an interrupted prompt."""

    program, resumes = "gemini", ("--resume", "latest")
    ready, interrupted, compacted = "Type your message", "Request cancelled.", "Chat history compressed from"
    wire: SigningWire

    def speaks(self) -> SigningWire:
        return SigningWire()

    def begin(self, folder: Path, upstream: str, *more: str, live: bool) -> GeminiScreen:
        return GeminiScreen(folder, upstream, "--approval-mode", "yolo", *more, live=live, model=MODEL)

    def messages(self, body: Any) -> list[Any]:
        # Its report on a shell command differs in each run.
        contents = re.sub(r"Process Group PGID: \d+", "", json.dumps(body["contents"]))
        return json.loads(contents)  # type: ignore[no-any-return]

    def newest(self, body: Any) -> tuple[str, list[str]]:
        results: list[str] = []
        for content in reversed(body["contents"]):
            if content["role"] == "user":
                results += [json.dumps(part) for part in content["parts"] if "functionResponse" in part]
                if typed := _typed(content):
                    return typed[-1], results
        return "", results

    def aside(self, body: Any) -> str | None:
        return None if body.get("tools") else forgotten(json.dumps(body["contents"])) or SNAPSHOT

    def thought(self, body: Any) -> tuple[Think, ...]:
        return (Think("Hm.", "c2lnbmVk"),)

    def calls(self, prompt: str, results: Sequence[str]) -> list[Use]:
        number = prompt.split()[-1]
        if results:
            return []
        if prompt.startswith("READ"):
            paths = [str(self.work / f"{name}.txt") for name in "ab"]
            return [Use(f"call_{number}{at}", "read_file", {"file_path": path}) for at, path in enumerate(paths)]
        if prompt.startswith("RUN"):
            return [Use(f"call_{number}", "run_shell_command", {"command": f"seq {number}", "description": "count"})]
        if prompt.startswith("DELEGATE"):
            task = {"agent_name": "generalist", "prompt": "SUBTASK: do it"}
            return [Use(f"call_{number}", "invoke_agent", task)]
        return []

    def __call__(self, body: Any) -> Answer:
        if "complete_task" in json.dumps(body.get("tools", [])):
            report = {"result": {"response": "The task is done."}}
            return Reply((Use("call_done", "complete_task", report),), stop="calls")
        answer = super().__call__(body)
        if not isinstance(answer, Reply):
            return answer
        # It does not compress its history if that would make the next request larger than the newest one.
        full = self.newest(body)[0].startswith("FULL")
        return answer._replace(usage=Usage(LARGE if full else len(json.dumps(body)) // 4))


needs_gemini_cli = pytest.mark.skipif(
    not (BIN / "gemini").exists() or shutil.which("tmux") is None,
    reason="gemini or tmux is not there: `make clients` installs the one",
)


@needs_gemini_cli
def test_thirty_steps(tmp_path: Path) -> None:
    for without, live in run(GeminiCli, tmp_path):
        assert live == without


@needs_gemini_cli
def test_a_compression_of_its_own_accord(tmp_path: Path) -> None:
    """It runs with a prompt. Its request omits a dropped turn, and the messages that it removes can be restored."""
    place = tmp_path / "session"
    with LongSession(GeminiCli(place / "work"), place, live=True) as session:
        session.say("READ both 1")
        session.say("A wrong turn 2")
        session.do(f"drop {session.find('A wrong turn 2')}", "left the context")
        session.say("FULL it is 3")
        session.say("After it 4")
        assert "Context compressed from" in session.screen.text
        compressed = [each.body["contents"] for each in session.upstream.requests if not each.body.get("tools")]
        assert "READ both 1" in json.dumps(compressed[0])
        assert not re.search("A wrong turn|drop", json.dumps(compressed))
        assert "READ both 1" not in json.dumps(session.asked())
        with session.log as log:
            events = conversation(log).events(0, 1000)
        session.restore([each for each in events if each.kind == "filter" and each.actor == "system"])
        session.say("After all 5")
        assert "READ both 1" in json.dumps(session.asked())
        assert "A wrong turn 2" not in json.dumps(session.asked())
        assert session.upstream.refusals == []
