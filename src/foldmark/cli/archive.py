"""`foldmark sync` and `foldmark sessions`: the archive of coding agents' sessions [SPEC 8]."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foldmark.app import Setup
from foldmark.cli.parameters import AS_JSON
from foldmark.cli.process import progress_bar, warn
from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import count, one_line
from foldmark.rendering import harmless, json_text

if TYPE_CHECKING:
    from foldmark.sessions.archive.forest import Node
    from foldmark.sessions.archive.syncing import Synced


def update_index(setup: Setup) -> None:
    """Index newly archived sessions. A failure is only a warning, because the existing index can be used."""
    from foldmark.sessions.archive.syncing import catch_up

    try:
        with progress_bar("Indexing") as progress:
            catch_up(os.environ, setup.given.sync_exclude, progress)
    except FoldmarkError as error:
        warn(f"the newest archived sessions may be missing: {error}")


@click.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--quiet", "-q", is_flag=True, help="Print errors only.")
@AS_JSON
@click.pass_obj
def sync(setup: Setup, paths: tuple[Path, ...], quiet: bool, as_json: bool) -> int:
    """Archive and index coding agents' sessions.

    Archives all sessions of Claude Code and Codex that are new or have grown, or those in PATH: session files, or
    folders of them. May be interrupted and repeated at any time. Exit code 1 if a file could not be read.
    """
    import msgspec

    from foldmark.sessions.archive.syncing import sync as archive_sessions

    with progress_bar("Indexing", hidden=quiet) as progress:
        report = archive_sessions(os.environ, setup.given.sync_exclude, paths, progress)
    if as_json:
        problems = [{"file": file, "reason": why} for file, why in report.problems]
        print(json_text({**msgspec.to_builtins(report), "problems": problems}))
    elif not quiet:
        print(harmless(_sync_text(report)))
    for path, why in report.problems:
        warn(f"{path}: {why}" if path not in why else why)
    return 1 if report.problems else 0


def _sync_text(report: "Synced") -> str:
    changed = [f"{number:,} {word}" for word in ("new", "grown") if (number := getattr(report, word))]
    if report.apart:
        changed.append(f"{report.apart:,} rewritten and kept as further copies")
    head = f"{count(report.sessions, 'session')}: {', '.join(changed) or 'nothing new'}"
    if report.excluded:
        head += f"; {report.excluded:,} excluded"
    return f"{head}\n{count(report.messages, 'message')} indexed in {one_line(report.archive)}"


@click.command()
@click.option(
    "--limit",
    "-n",
    default=20,
    show_default=True,
    type=click.IntRange(0),
    help="Maximum number of unrelated sessions to list.",
)
@AS_JSON
@click.pass_obj
def sessions(setup: Setup, limit: int, as_json: bool) -> None:
    """Show which coding session continued which.

    Shows trees of sessions, with why each session ended and how full its context was; then archived sessions that
    continue no other, the newest first.
    """
    from foldmark.sessions.archive.forest import archived_sessions, forest
    from foldmark.sessions.archive.index import NAME
    from foldmark.sessions.archive.storing import archive_folder

    archive = archive_folder(os.environ)
    update_index(setup)
    archived = archived_sessions(archive) if (archive / NAME).is_file() else []
    known = []
    if setup.has_database:
        with setup.log(create=False) as log, log.store.read() as moment:
            known = moment.coding_sessions()
    roots = forest(known, archived)
    trees = [node for node in roots if node.children or node.known]
    others = [node for node in roots if not node.children and not node.known]
    if as_json:
        print(json_text(forest_data(trees, others[:limit], len(others))))
    else:
        print(harmless(forest_text(trees, others[:limit], len(others))))


def forest_text(trees: "Sequence[Node]", others: "Sequence[Node]", all_others: int) -> str:
    """Return trees of sessions as text, then the first of all sessions that continue no other."""
    blocks = ["\n".join(_tree_lines(tree)) for tree in trees]
    if others:
        lines = ["Archived sessions that continue no other:", *map(_session_line, others)]
        if all_others > len(others):
            lines.append(f"{count(all_others - len(others), 'session')} more; --limit shows them")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) or "No session is known yet; `foldmark sync` archives those of Claude Code and Codex."


def forest_data(trees: "Sequence[Node]", others: "Sequence[Node]", all_others: int) -> dict[str, Any]:
    """Return the same as JSON: each tree as a flat list, parents before children."""
    from foldmark.sessions.archive.forest import walk

    return {
        "lineages": [_session_data(depth, node) for tree in trees for depth, node in walk([tree])],
        "others": [_session_data(0, node) for node in others],
        "more": all_others - len(others),
    }


def _tree_lines(tree: "Node") -> Iterator[str]:
    """Draw a tree: lines lead from each session to those that continue it."""
    waiting = [("", "   ", tree)]
    while waiting:
        branch, below, node = waiting.pop()
        yield branch + _session_line(node)
        for child in reversed(node.children):
            last = child is node.children[-1]
            waiting.append((below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "), child))


def _session_line(node: "Node") -> str:
    """Return one session: its number, id, folder, times, and why it ended."""
    from foldmark.core.agents import minute
    from foldmark.core.search import PROGRAMS
    from foldmark.sessions.formats import DEFAULT

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


def _times(node: "Node") -> tuple[str | None, str | None]:
    known, archived = node.known, node.archived
    began = (known and known.started_at) or (archived and archived.first) or None
    ended = (known and known.ended_at) or (archived and archived.last) or None
    return began, None if began and ended and ended < began else ended  # a trim copies earlier messages


def _session_data(depth: int, node: "Node") -> dict[str, Any]:
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
