"""A client that keeps a transcript as Claude Code does, and lets a mod replace it. What it does was seen in 2.1.332."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

REMINDER = "<system-reminder>\nYou are in a folder.\n</system-reminder>"


class SimulatedClient:
    """A session: its rows, and the messages that it sends of them.

    Rows without a handle are built anew: they lose their thinking, and each is an answer of its own. Every compaction
    gives all rows new handles.
    """

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._summaries = 0
        self._written: list[dict[str, Any]] = []
        self._ids, self._numbers = count(1), count(1)

    def _add(self, role: str, answer: str = "", **about: Any) -> None:
        row = {"role": role, "text": "", "toolUses": [], **about, "handle": f"h{next(self._ids)}", "answer": answer}
        self.rows.append(row)
        self._written.append(row)

    def resume(self) -> None:
        """Leave, and continue the session: lines of an answer that are elsewhere in the file are added to it."""
        inside, rows = {row["handle"] for row in self.rows}, list[dict[str, Any]]()
        last = {row["answer"]: row["handle"] for row in self.rows if row["answer"]}
        for row in self.rows:
            rows.append(row)
            if last.get(row["answer"]) == row["handle"]:
                rows += [
                    each for each in self._written if each["answer"] == row["answer"] and each["handle"] not in inside
                ]
        self.rows = rows

    def turn(self, prompt: str, calls: int = 0) -> None:
        """Send a prompt, and answer it, with so many calls of a tool."""
        self._add("user", text=prompt)
        while True:
            number = next(self._numbers)
            answer = f"msg_{number}"
            self._add("assistant", answer, thinking=f"signed-{number}")
            self._add("assistant", answer, text=f"Text {number}.")
            if not calls:
                return
            calls -= 1
            use = {"tool_use_id": f"toolu_{number}", "tool": "Read", "input": {"at": number}}
            self._add("assistant", answer, toolUses=[use])
            result = {"tool_use_id": use["tool_use_id"], "text": f"matter {number}\n" * (number % 7 + 1)}
            self._add("user", toolResults=[{**result, "isError": False}])

    def summarize(self) -> None:
        """Compact the session as the client does: a summary, and the newest answer behind it."""
        self._summaries += 1  # no two summaries are equal
        begin = "This session is being continued from a previous conversation that ran out of context."
        text = f"{begin} The rest {self._summaries}."
        last = [row for row in self.rows if row["answer"] and row["answer"] == self.rows[-1]["answer"]]
        self.rows = []
        self._add("user", text=text)
        self.rows += last  # it preserves these, and forgets what was before
        self._written = list(self.rows)

    def install(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Replace the transcript by the rows that a mod returns."""
        assert rows, "the client would summarize"
        own = {row["handle"]: row for row in self.rows}
        kept = [own[row["handle"]] for row in rows if row.get("handle")]
        assert not any(row["answer"] or row.get("toolResults") for row in kept), "a resumed session would differ"
        new = []
        for row in rows:
            made = dict(own[row["handle"]]) if row.get("handle") else {**row, "answer": f"built_{next(self._ids)}"}
            if made["role"] == "user":
                made["answer"] = ""
            new.append({**made, "handle": f"h{next(self._ids)}"})
        self.rows = new
        self._written += new

    def handed(self) -> list[dict[str, Any]]:
        """Return the rows as a mod gets them."""
        return [{name: row[name] for name in row if name not in ("answer", "thinking")} for row in self.rows]

    def messages(self) -> list[dict[str, Any]]:
        """Return what the client sends, in the form of the Messages API."""
        found: list[dict[str, Any]] = []
        newest = ""
        for row in self.rows:
            blocks = list(self._blocks(row))
            joins = found and found[-1]["role"] == row["role"] and (row["role"] == "user" or newest == row["answer"])
            newest = row["answer"]
            if not joins:
                found.append({"role": row["role"], "content": blocks})
                continue
            before = found[-1]["content"]
            if row["role"] == "user" and before[-1]["type"] == "text" and blocks[0]["type"] == "text":
                before[-1] = {**before[-1], "text": before[-1]["text"] + "\n"}
            before += blocks
        if found and found[0]["role"] == "user":
            found[0]["content"].insert(0, {"type": "text", "text": REMINDER})
        return [each for each in found if any(block["type"] != "thinking" for block in each["content"])]

    def _blocks(self, row: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
        if row.get("thinking"):
            return [{"type": "thinking", "thinking": "Hm.", "signature": row["thinking"]}]
        blocks: list[dict[str, Any]] = [
            {"type": "tool_result", "tool_use_id": each["tool_use_id"], "content": each["text"]}
            for each in row.get("toolResults") or ()
        ]
        blocks += [{"type": "text", "text": row["text"]}] if row["text"] else []
        return blocks + [
            {"type": "tool_use", "id": each["tool_use_id"], "name": each["tool"], "input": each["input"]}
            for each in row["toolUses"]
        ]
