"""How the archive and the lineage of coding agents' sessions are shown."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from foldmark.core.agents import minute
from foldmark.core.search import PROGRAMS
from foldmark.core.wording import count, one_line
from foldmark.sessions.archive.forest import Node, walk
from foldmark.sessions.archive.syncing import Synced
from foldmark.sessions.formats import DEFAULT


def synced_text(report: Synced) -> str:
    """What a sync did."""
    changed = [f"{number:,} {word}" for word in ("new", "grown") if (number := getattr(report, word))]
    if report.apart:
        changed.append(f"{report.apart:,} rewritten, kept beside what was there")
    lines = [f"{count(report.sessions, 'session')}: {', '.join(changed) or 'nothing new'}"]
    if report.excluded:
        lines[0] += f"; {report.excluded:,} not to be archived"
    lines.append(f"{count(report.messages, 'message')} indexed in {one_line(report.archive)}")
    return "\n".join(lines)


def synced_data(report: Synced) -> dict[str, Any]:
    """The same as JSON."""
    problems = [{"file": file, "reason": why} for file, why in report.problems]
    return {**msgspec.to_builtins(report), "problems": problems}


def forest_text(trees: Sequence[Node], others: Sequence[Node], all_others: int) -> str:
    """Trees first, then what continues nothing."""
    blocks = []
    for tree in trees:
        blocks.append("\n".join(_drawn(tree)))
    if others:
        lines = ["Archived, continuing no other:", *(_line(node) for node in others)]
        if all_others > len(others):
            lines.append(f"{count(all_others - len(others), 'session')} more; --limit shows them")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) or "No session is known yet; `foldmark sync` archives those of Claude Code and Codex."


def forest_data(trees: Sequence[Node], others: Sequence[Node], all_others: int) -> dict[str, Any]:
    """The trees as flat lists, parents before children."""
    return {
        "lineages": [_data(depth, node) for tree in trees for depth, node in walk([tree])],
        "others": [_data(0, node) for node in others],
        "more": all_others - len(others),
    }


def _drawn(tree: Node) -> Iterator[str]:
    """A tree, line by line; lines lead from each session to those that continue it."""
    waiting = [("", "   ", tree)]
    while waiting:
        branch, below, node = waiting.pop()
        yield branch + _line(node)
        for child in reversed(node.children):
            last = child is node.children[-1]
            waiting.append((below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "), child))


def _line(node: Node) -> str:
    """One session: its number, id, folder, times, and why it ended."""
    known, archived = node.known, node.archived
    parts = [f"{known.session_number}." if known else "", node.session_id]
    if node.kind != DEFAULT:
        parts.append(PROGRAMS.get(node.kind, node.kind))
    if archived and archived.project:
        parts.append(archived.project)
    began, ended = _times(node)
    if began or ended:
        parts.append(f"{minute(began or '?')} to {minute(ended or '?')}")
    if known and known.end_reason:
        full = "" if known.context_at_end is None else f" at {known.context_at_end}%"
        parts.append(f"ended by {known.end_reason}{full}" if known.end_reason != "completed" else f"completed{full}")
    elif archived and archived.parent:
        parts.append(f"continues {archived.parent} ({archived.why})")
    parts += [f"issue {known.issue}"] if known and known.issue else []
    parts += [f"worker {known.worker_id}"] if known and known.worker_id is not None else []
    parts += [count(node.subagents, "subagent")] if node.subagents else []
    parts += ["not archived"] if not archived else [f"“{archived.title}”"] if archived.title else []
    return "  ".join(one_line(each) for each in parts if each)


def _times(node: Node) -> tuple[str | None, str | None]:
    known, archived = node.known, node.archived
    began = (known and known.started_at) or (archived and archived.first) or None
    ended = (known and known.ended_at) or (archived and archived.last) or None
    return began, None if began and ended and ended < began else ended  # what a trim has copied was said before


def _data(depth: int, node: Node) -> dict[str, Any]:
    known, archived = node.known, node.archived
    began, ended = _times(node)
    return {
        "depth": depth,
        "kind": node.kind,
        "session_id": node.session_id,
        "parent": (known and known.parent) or (archived and archived.parent) or None,
        "session_number": known.session_number if known else None,
        "project": archived.project if archived else None,
        "title": archived.title if archived else None,
        "started_at": began,
        "ended_at": ended,
        "end_reason": known.end_reason if known else None,
        "context_at_end": known.context_at_end if known else None,
        "continues_by": archived.why if archived else None,
        "worker_id": known.worker_id if known else None,
        "issue": known.issue if known else None,
        "summary": known.summary if known else None,
        "subagents": node.subagents,
        "file": archived.file if archived else known.file if known else None,
        "archived": archived is not None,
    }
