"""Tokens of sessions by kind, before and after a trim: the table in `docs/claude-code-trim.md` [SPEC 8].

`python benchmarks/trim_kinds.py FILE_OR_FOLDER…` reads Claude Code sessions and Codex rollouts, trims each in a
temporary folder with the default profile and with `deep`, and measures what the model is sent afterwards. That is read
without the code that trims, which only decides, once and from the original, which results are stale, identical or
failed attempts. The originals are not changed.

Tokens are a third of the bytes of compact JSON (Codex: 1/3.2). Exit code 1 if a trim adds tokens to any kind, or if a
second deep trim changes anything.
"""

import argparse
import json
import shutil
import sys
import tempfile
import uuid
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from foldmark.formats.claude.records import rows
from foldmark.formats.claude.resumption import resume
from foldmark.formats.places import recognized, session_path
from foldmark.formats.session_file import SessionFile, SessionFileError
from foldmark.formats.session_format import SessionPath
from foldmark.sessions.trim.job import TrimOptions
from foldmark.sessions.trim.stale import ARGUMENTS, FAILED, IDENTICAL, READS, TODOS, TrimPlan, plan
from foldmark.sessions.trim.trimming import kind_of, trim

TOOLS = ("Read", "Bash", "Grep", "Glob")
PROFILES = {
    "default": TrimOptions(500, TOOLS),
    "deep": TrimOptions(500, TOOLS, deep=True),
    "deep, --spare 5": TrimOptions(500, TOOLS, deep=True, spare=5),
}
LONG, OTHERS, SHORT = f"results of {', '.join(TOOLS)}", "results of other tools", "results of 500 characters or less"
KINDS = {
    LONG: "over 500 characters",
    OTHERS: "over 500 characters",
    SHORT: "",
    READS: "of files that were read or changed later",
    IDENTICAL: "all but the newest",
    FAILED: "result and arguments",
    ARGUMENTS: "of Write, Edit and Task, made stale later",
    TODOS: "all but the newest",
    "other arguments": "",
    "thinking": "",
    "answers": "",
    "prompts and the rest": "summaries and attachments too",
}


class Kinds:
    """Decides the kind of each part of a session, by the original."""

    def __init__(self, session: SessionPath) -> None:
        kind = kind_of(session)
        lines = kind(PROFILES["default"], session.path, session.id)
        for lines.at, raw in enumerate(session.path.read_bytes().splitlines(keepends=True)):
            lines.line(lines.at + 1, raw)
        self.plan: TrimPlan = plan(lines.calls(), 0, deep=kind.finds_stale)
        self.ratio = kind.bytes_per_token
        self.by_call: dict[str, str] = {}
        self.names: dict[str, str] = {}

    def tokens(self, session: SessionPath) -> Counter[str]:
        """Return the tokens that the model is sent, by kind."""
        found: Counter[str] = Counter()
        for kind, content in self._codex(session) if session.kind == "codex" else self._claude(session):
            written = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
            found[kind] += len(written)
        return Counter({kind: round(size / self.ratio) for kind, size in found.items()})

    def _claude(self, session: SessionPath) -> list[tuple[str, Any]]:
        found = []
        with SessionFile(session.path) as file:
            every = list(rows(file))
            for row in resume(every).order:
                record = file.reread(row.line, row.offset).value
                message = record.get("message") or {"content": record.get("attachment")}
                content = message.get("content")
                for block in content if isinstance(content, list) else [content]:
                    found.append(self._block(record.get("type"), block))
        return found

    def _block(self, role: Any, block: Any) -> tuple[str, Any]:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "tool_use":
            self.names[block["id"]] = block["name"]
            return self.plan.arguments.get(block["id"], "other arguments"), block.get("input")
        if kind == "tool_result":
            return self._result(block["tool_use_id"], block.get("content")), block.get("content")
        if kind in ("thinking", "redacted_thinking"):
            return "thinking", block
        return "answers" if role == "assistant" else "prompts and the rest", block

    def _result(self, call_id: str, content: Any) -> str:
        if call_id not in self.by_call:  # set by the original, which comes first
            usual = LONG if self.names.get(call_id, "Bash") in TOOLS else OTHERS
            short = len(content if isinstance(content, str) else json.dumps(content)) <= 500
            self.by_call[call_id] = self.plan.results.get(call_id, SHORT if short else usual)
        return self.by_call[call_id]

    def _codex(self, session: SessionPath) -> list[tuple[str, Any]]:
        found = []
        with SessionFile(session.path) as file:
            for line in file.lines():
                record = getattr(line, "value", None)
                if not isinstance(record, dict) or record.get("type") != "response_item":
                    continue
                item = record["payload"]
                kind = str(item.get("type"))
                if kind.endswith("_output"):
                    found.append((self._result(item["call_id"], item["output"]), item["output"]))
                elif kind.endswith("_call"):
                    found.append(("other arguments", item.get("arguments") or item.get("input")))
                elif kind == "message" and item.get("role") == "assistant":
                    found.append(("answers", item))
                else:
                    found.append(("thinking" if kind == "reasoning" else "prompts and the rest", item))
        return found


def trimmed(session: SessionPath, wish: TrimOptions) -> SessionPath:
    """Return the session after a trim; the session itself if nothing was cut."""
    with SessionFile(session.path) as file:
        return trim(session, file, wish, str(uuid.uuid4()), datetime.now(UTC)).session


def table(columns: dict[str, Counter[str]], sizes: dict[str, int], count: int) -> str:
    """Return the figures as a Markdown table."""
    whole = columns["before"].total()
    head = [f"tokens in {count} sessions", *columns]
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * len(columns)]
    for kind, note in KINDS.items():
        name = f"{kind} ({note})" if note else kind
        numbers = [f"{each[kind]:,.0f}" for each in columns.values()]
        if columns["before"][kind]:
            numbers[0] += f" ({columns['before'][kind] / whole:.1%})"
            lines.append("| " + " | ".join([name, *numbers]) + " |")
    saved = [f"{each.total():,.0f} (−{1 - each.total() / whole:.1%})" for each in columns.values()]
    lines.append("| " + " | ".join(["**all**", f"{whole:,.0f}", *saved[1:]]) + " |")
    return "\n".join(
        [*lines, "| " + " | ".join(["files, KB", *(f"{size / 1000:,.0f}" for size in sizes.values())]) + " |"]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, metavar="FILE_OR_FOLDER")
    options = parser.parse_args()
    files = [file for path in options.paths for file in (sorted(path.rglob("*.jsonl")) if path.is_dir() else [path])]
    columns: dict[str, Counter[str]] = {name: Counter() for name in ("before", *PROFILES)}
    sizes: dict[str, int] = dict.fromkeys(columns, 0)
    count, good = 0, True
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            try:
                kind = recognized(session_path(file)).kind
            except SessionFileError as error:
                print(f"left out: {error}", file=sys.stderr)
                continue
            copy = Path(folder, str(count), file.name)
            copy.parent.mkdir()
            shutil.copyfile(file, copy)
            session = session_path(copy, kind)
            kinds = Kinds(session)
            before = kinds.tokens(session)
            count += 1
            for name, wish in ({"before": None} | PROFILES).items():
                new = trimmed(session, wish) if wish else session
                found = kinds.tokens(new)
                good &= all(found[each] <= before[each] for each in found)
                good &= not wish or trimmed(new, wish) == new
                columns[name] += found
                sizes[name] += new.path.stat().st_size
    print(table(columns, sizes, count))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
