"""Read from a Claude Code session what its calls asked and what became of them, for `stale` [SPEC 8].

Only what is sent when the session is resumed counts: a branch that was left makes nothing stale.
"""

import json
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from foldmark.sessions.claude.resumption import Links, sent
from foldmark.sessions.claude.rows import rows
from foldmark.sessions.session_file import SessionFile
from foldmark.sessions.trim.stale import Call

_REJECTED = ("The user doesn't want to", "[Request interrupted by user")
"""How results begin that say what a person decided; the person's reason may stand behind it."""

_UNCHANGED = "File unchanged since last read"
_PART = ("offset", "limit", "pages", "view_range")


def calls(path: Path) -> list[Call]:
    """Return the calls in the order in which the model reads them. Raises SessionFileError."""
    found: dict[str, Call] = {}
    with SessionFile(path) as file:
        all_rows = list(rows(file))
        for row in sent(all_rows, Links(all_rows)).order:
            if not row.calls and not row.results:
                continue
            content = file.reread(row.line, row.offset).value["message"]["content"]
            for at, id in row.calls:
                if id not in found:
                    found[id] = _asked(id, content[at])
            for at, id in row.results:
                if id in found and found[id].digest is None:
                    found[id] = _answered(found[id], content[at])
    return list(found.values())


def digest(content: Any) -> bytes:
    """Return what is equal for equal results."""
    return blake2b(msgspec.json.encode(content), digest_size=16).digest()


def _asked(id: str, block: dict[str, Any]) -> Call:
    given = block.get("input")
    given = given if isinstance(given, dict) else {}
    path = next((each for key in ("file_path", "notebook_path") if isinstance(each := given.get(key), str)), None)
    part = {key: given[key] for key in _PART if given.get(key) is not None}
    attempt = path if path is not None else digest(given).hex()
    return Call(id, block["name"], path, json.dumps(part, sort_keys=True) if part else None, attempt)


def _answered(call: Call, block: dict[str, Any]) -> Call:
    content = block.get("content")
    begin = content if isinstance(content, str) else _first_text(content)
    return msgspec.structs.replace(
        call,
        failed=block.get("is_error") is True,
        digest=digest(content),
        spoken=block.get("is_error") is True and begin.startswith(_REJECTED),
        void=begin.startswith(_UNCHANGED) or _UNCHANGED in begin[:100],
    )


def _first_text(content: Any) -> str:
    first = content[0] if isinstance(content, list) and content else None
    text = first.get("text") if isinstance(first, dict) else None
    return text if isinstance(text, str) else ""
