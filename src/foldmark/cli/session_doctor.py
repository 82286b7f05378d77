"""`foldmark doctor --session`: what is wrong with a session file, and a repaired copy of it."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import click

from foldmark.core.wording import count
from foldmark.rendering import harmless, json_text
from foldmark.sessions.conversion.exporting import session_of
from foldmark.sessions.doctor import Diagnosis, diagnose
from foldmark.sessions.doctor.repairing import Repaired, repair
from foldmark.sessions.formats import SessionPath, resume_command
from foldmark.sessions.places import find, recognized

_MARKS = {"stops": "stops", "loses": "loses", "note": "note "}


def examine(named: str, mended: bool, out: Path | None, as_json: bool) -> int:
    """Print what is wrong with a session, or repair it; the exit code, 1 if something is wrong and stays so."""
    if out and not mended:
        raise click.UsageError("--out says where a repaired session goes; add --repair")
    session = recognized(find(named, Path.cwd(), os.environ), damaged=True)
    found = diagnose(session)
    new = _repaired(session, out) if mended else None
    left = new.now.wrong if new else found.wrong
    if as_json:
        print(json_text(_data(found, new)))
    else:
        print(harmless("\n".join(_text(found, new, mended))))
    return 1 if left else 0


def _repaired(session: SessionPath, out: Path | None) -> Repaired | None:
    id = (session_of(out) if out else None) or str(uuid4())
    return repair(session, id, datetime.now(UTC), lambda: str(uuid4()), out)


def _text(found: Diagnosis, new: Repaired | None, mended: bool) -> list[str]:
    lines = []
    for each in found.findings:
        where = f"line {each.line}: " if each.line else ""
        lines.append(f"{_MARKS[each.weight]}  {where}{each.text}")
    about = f"{count(found.lines, 'line')}, {count(found.sent, 'message')} sent on resuming"
    lines.append(f"{found.session.path}: {about}; {found.verdict}")
    if new is None:
        return [*lines, "There is nothing to repair; nothing was written."] if mended else lines
    lines.append(f"Repaired: {new.session.path}")
    lines += [f"  line {line}: {text}" for line, text in new.done]
    lines += [f"  still wrong: {each.text}" for each in new.now.wrong]
    lines += ["Continue it with:", f"  {resume_command(new.session, os.environ).shell}"]
    return lines


def _data(found: Diagnosis, new: Repaired | None) -> dict[str, Any]:
    data = _diagnosis(found)
    if new is not None:
        data["repaired"] = {
            **_diagnosis(new.now),
            "session_id": new.id,
            "repairs": [{"line": line, "text": text} for line, text in new.done],
            "command": resume_command(new.session, os.environ).shell,
        }
    return data


def _diagnosis(found: Diagnosis) -> dict[str, Any]:
    return {
        "file": str(found.session.path),
        "kind": found.session.kind,
        "lines": found.lines,
        "sent": found.sent,
        "resumable": not any(each.weight == "stops" for each in found.findings),
        "findings": [{"weight": each.weight, "line": each.line, "text": each.text} for each in found.findings],
    }
