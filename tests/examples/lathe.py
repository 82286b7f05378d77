"""Lathe, the agent of examples/coding_agent: it reads prompts from lines, keeps its session, and asks over HTTP.

It sends its whole transcript each time, and once asks for a title beside it. A prompt with RUN makes its model run a
tool.
"""

import json
import os
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Data = dict[str, Any]

TOOL = {"type": "function", "function": {"name": "run", "parameters": {"type": "object", "properties": {}}}}
NOTES = "<lathe-notes>The bench is clean.</lathe-notes>"
RESULT = "shavings " * 900


class Session:
    """A session with its file."""

    def __init__(self, id: str) -> None:
        self.id, self.file = id, Path(os.environ["LATHE_HOME"], "sessions", f"{id}.jsonl")
        self.messages: list[Data] = []
        if self.file.exists():
            for line in self.file.read_text().splitlines():
                self._add(json.loads(line))
        else:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.note(lathe="began", session=id, cwd=str(Path.cwd()))
            self.note(lathe="said", by="person", text=NOTES)

    def note(self, **record: Any) -> None:
        with self.file.open("a") as file:
            file.write(json.dumps({**record, "timestamp": "2026-03-01T08:00:00Z"}) + "\n")
        self._add(record)

    def _add(self, record: Data) -> None:
        match record:
            case {"lathe": "said", "by": by, "text": text}:
                self.messages.append({"role": "assistant" if by == "model" else "user", "content": text})
            case {"lathe": "ran", "call": call, "tool": tool, "with": arguments}:
                function = {"name": tool, "arguments": json.dumps(arguments)}
                called = {"id": call, "type": "function", "function": function}
                self.messages.append({"role": "assistant", "content": None, "tool_calls": [called]})
            case {"lathe": "got", "call": call, "text": text}:
                self.messages.append({"role": "tool", "tool_call_id": call, "content": text})

    def say(self, prompt: str) -> str:
        """Send a prompt, run the tools that the model calls, and return its answer."""
        self.note(lathe="said", by="person", text=prompt)
        while True:
            answer = self.ask(self.messages, "turn")
            for call in answer["calls"].values():
                self.note(lathe="ran", call=call["id"], tool=call["name"], **{"with": json.loads(call["arguments"])})
                self.note(lathe="got", call=call["id"], text=RESULT)
            if not answer["calls"]:
                self.note(lathe="said", by="model", text=answer["text"])
                return str(answer["text"])

    def ask(self, messages: list[Data], task: str) -> Data:
        """Return the text and the calls of an answer, which arrives as a stream."""
        said = [{"role": "system", "content": f"You turn wood. This is a {task}."}, *messages]
        tools = {"tools": [TOOL]} if task == "turn" else {}
        request = urllib.request.Request(
            f"{os.environ['LATHE_API_BASE']}/chat/completions",
            json.dumps({"model": "gpt-5.1", "stream": True, "messages": said, **tools}).encode(),
            {
                "content-type": "application/json",
                "authorization": f"Bearer {os.environ['LATHE_KEY']}",
                "x-lathe-session": self.id,
                "x-lathe-folder": "/projects/bench",
                "x-lathe-task": task,
                "x-lathe-screen": "yes",
            },
        )
        found: Data = {"text": "", "calls": {}}
        for delta in deltas(request):
            found["text"] += delta.get("content") or ""
            for piece in delta.get("tool_calls") or ():
                call = found["calls"].setdefault(piece["index"], {"id": "", "name": "", "arguments": ""})
                call["id"] += piece.get("id") or ""
                call["name"] += piece["function"].get("name") or ""
                call["arguments"] += piece["function"].get("arguments") or ""
        return found


def deltas(request: urllib.request.Request) -> Iterator[Data]:
    with urllib.request.urlopen(request, timeout=60) as answer:
        for line in answer:
            if line.startswith(b"data: {"):
                yield from (choice["delta"] for choice in json.loads(line[6:])["choices"])


def main() -> None:
    session = Session(sys.argv[2] if sys.argv[1:2] == ["--session"] else uuid.uuid4().hex)
    asks_title = len(session.messages) == 1
    for line in sys.stdin:
        print(json.dumps([session.id, session.say(line.rstrip("\n"))]), flush=True)
        if asks_title:
            session.ask([*session.messages, {"role": "user", "content": "Name this session."}], "title")
            asks_title = False


main()
