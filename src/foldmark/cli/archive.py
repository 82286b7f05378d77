"""`foldmark sync` and `foldmark sessions`: the archive of coding agents' sessions [SPEC 8]."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from foldmark.app import Setup
from foldmark.core.errors import FoldmarkError
from foldmark.core.ports import Progress
from foldmark.rendering import harmless, json_text

_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@contextmanager
def _indexing(*, shown: bool = True) -> Iterator[Progress | None]:
    """A progress bar on a terminal's standard error, once there is something to index."""
    bar: Any = None

    def show(done: int, total: int) -> None:
        nonlocal bar
        if bar is None:
            bar = stack.enter_context(click.progressbar(length=1, label="Indexing", file=sys.stderr))
        bar.length = max(1, total)
        bar.update(done - bar.pos)

    with ExitStack() as stack:
        yield show if shown and sys.stderr.isatty() else None


def caught_up(setup: Setup) -> None:
    """Index what was archived since; what keeps that from being done is told, for what is indexed can be used."""
    from foldmark.sessions.archive.syncing import catch_up

    try:
        with _indexing() as progress:
            catch_up(os.environ, setup.given.sync_exclude, progress)
    except FoldmarkError as error:
        print(harmless(f"foldmark: what was archived last may be missing: {error}"), file=sys.stderr)


@click.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--quiet", "-q", is_flag=True, help="Print only what went wrong.")
@_AS_JSON
@click.pass_obj
def sync(setup: Setup, paths: tuple[Path, ...], quiet: bool, as_json: bool) -> int:
    """Archive and index coding agents' sessions.

    All of Claude Code and Codex that are new or have grown, or those in PATH: session files, or folders of them. May be
    interrupted and repeated at any time. Exit code 1 if a file could not be read.
    """
    from foldmark.cli.archive_render import synced_data, synced_text
    from foldmark.sessions.archive.syncing import sync as bring

    with _indexing(shown=not quiet) as progress:
        report = bring(os.environ, setup.given.sync_exclude, paths, progress)
    if as_json:
        print(json_text(synced_data(report)))
    elif not quiet:
        print(harmless(synced_text(report)))
    for path, why in report.problems:
        print(harmless(f"foldmark: {path}: {why}" if path not in why else f"foldmark: {why}"), file=sys.stderr)
    return 1 if report.problems else 0


@click.command()
@click.option("--limit", "-n", default=20, show_default=True, type=click.IntRange(0), help="The most of no lineage.")
@_AS_JSON
@click.pass_obj
def sessions(setup: Setup, limit: int, as_json: bool) -> None:
    """Show which coding session continued which.

    As trees, with why each session ended and how full its context was; then archived sessions that continue none, the
    newest first.
    """
    from foldmark.cli import archive_render as render
    from foldmark.sessions.archive.forest import archived_sessions, forest
    from foldmark.sessions.archive.index import NAME
    from foldmark.sessions.archive.storing import archive_folder

    archive = archive_folder(os.environ)
    caught_up(setup)
    archived = archived_sessions(archive) if (archive / NAME).is_file() else []
    known = []
    if setup.has_database:
        with setup.log(create=False) as log, log.store.read() as moment:
            known = moment.coding_sessions()
    roots = forest(known, archived)
    trees = [node for node in roots if node.children or node.known]
    others = [node for node in roots if not node.children and not node.known]
    if as_json:
        print(json_text(render.forest_data(trees, others[:limit], len(others))))
    else:
        print(harmless(render.forest_text(trees, others[:limit], len(others))))
