"""`foldmark index`: vectors of messages, for search by meaning [SPEC 7]."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import click

from foldmark.app import Setup, nothing_to, read_settings
from foldmark.cli.parameters import Number, reporting
from foldmark.cli.process import progress_bar, show, warn
from foldmark.cli.sessions import update_index
from foldmark.core.errors import FoldmarkError
from foldmark.core.search import Vectors
from foldmark.core.wording import count, one_line

if TYPE_CHECKING:
    from foldmark.recall.embeddings import Embedder

_LONG = 30.0
"""Work that takes longer than this number of seconds is announced."""


@click.command()
@click.option("--status", is_flag=True, help="Only print how many messages have vectors.")
@click.option("--remove", is_flag=True, help="Remove the vectors of --model, by default of all models.")
@click.option("--model", metavar="NAME", help="Name or folder of the model; the setting recall_model by default.")
@click.option("--limit", metavar="N", type=Number(1), help="Embed at most N messages.")
@reporting
def index(setup: Setup, status: bool, remove: bool, model: str | None, limit: int | None, as_json: bool) -> int:
    """Make the vectors that a search by meaning needs.

    Embeds the messages of conversations and archived sessions that have no vector yet, with a model on this machine.
    May be interrupted at any time and goes on from there. A running chat or server embeds new messages itself. Needs
    the extra `embeddings`.
    """
    if status + remove + (limit is not None) > 1:
        raise click.UsageError("--status, --remove and --limit exclude each other")
    given = setup.given if model is None else read_settings({"recall_model": model})
    if not status and not remove:
        from foldmark.recall.embeddings.model import one_thread_each

        one_thread_each()
    with _stores(setup) as stores:
        if remove:
            fingerprint = None if model is None else _loaded(given.recall_model).fingerprint
            removed = {name: _removed(store, fingerprint) for name, store in stores.items()}
            text = "vectors removed" if any(removed.values()) else "there were no vectors"
            show({"removed": removed}, text, as_json)
            return 0
        embedder = _loaded(given.recall_model, offering=not (status or as_json))
        interrupted = False
        if not status:
            try:
                _make(stores, embedder, limit)
            except KeyboardInterrupt:
                interrupted = True
        mine = {embedder.fingerprint}
        found = {
            name: {**store.coverage(embedder.fingerprint)._asdict(), "other_models": len({*store.embedders()} - mine)}
            for name, store in stores.items()
        }
        data = {"model": embedder.name, "fingerprint": embedder.fingerprint, "dimensions": embedder.dimensions}
        show({**data, **found}, _text(embedder, found), as_json)
    if interrupted:
        warn("interrupted; `foldmark index` goes on from there")
        return 130
    if model is not None and model != setup.given.recall_model and not status:
        warn(f"searches use {one_line(embedder.name)} once recall_model is set to it")
    return 0


@contextmanager
def _stores(setup: Setup) -> Iterator[dict[str, Vectors]]:
    """Yield the stores of messages to embed, by name. Raises FoldmarkError if there are none."""
    from foldmark.sessions.archive.index import NAME
    from foldmark.sessions.archive.storing import archive_folder
    from foldmark.sessions.archive.vectors import opened

    update_index(setup)
    archive, stores = archive_folder(os.environ), dict[str, Vectors]()
    with ExitStack() as stack:
        if setup.has_database and (vectors := stack.enter_context(setup.log(create=False)).vectors) is not None:
            stores["conversations"] = vectors
        if (archive / NAME).is_file():
            stores["sessions"] = stack.enter_context(opened(archive))
        if not stores:
            raise FoldmarkError(nothing_to("index"))
        yield stores


def _loaded(name: str, *, offering: bool = False) -> "Embedder":
    """Return the model. With `offering`, offer a person at a terminal to install missing packages. Raises
    EmbeddingError."""
    from foldmark.recall.embeddings import NotInstalledError
    from foldmark.recall.embeddings.model import kept

    try:
        return kept(name)
    except NotInstalledError as error:
        if not (offering and sys.stdin.isatty() and sys.stdout.isatty()):
            raise
        from foldmark.recall.embeddings.model import one_thread_each

        warn(str(error))
        if not offer_install(error.commands):
            raise click.exceptions.Exit(error.exit_code) from None  # everything has been printed
        one_thread_each()
    return kept(name)


def _make(stores: Mapping[str, Vectors], embedder: "Embedder", limit: int | None) -> None:
    """Make vectors, store by store, for at most `limit` messages."""
    from foldmark.recall.embeddings.model import together
    from foldmark.recall.embeddings.stored import BATCH, StoredVectors

    covered = [store.coverage(embedder.fingerprint) for store in stores.values()]
    missing = sum(each.of - each.messages for each in covered)
    left = missing if limit is None else limit
    with _bar(min(left, missing)) as made, together(embedder) as several:
        for store in stores.values():
            meanings = StoredVectors(store, several)
            while limit is None or left > 0:
                step = meanings.step(BATCH if limit is None else min(BATCH, left))
                left -= step.messages
                made(step.messages)
                if step.until == step.newest:
                    break


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar. Long work is announced first, after the first messages, even without a terminal."""
    began, done = time.monotonic(), 0

    def made(messages: int) -> None:
        nonlocal done
        is_first, done = not done, done + messages
        left = (total - done) * (time.monotonic() - began) / max(1, done)
        if is_first and done and left > _LONG:
            warn(f"{count(total, 'message')}, about {_duration(left)}; Ctrl-C stops it, and the next run goes on")
        if done:
            report(done, total)

    with progress_bar("Embedding") as report:
        yield made


def _duration(seconds: float) -> str:
    return count(round(seconds), "second") if seconds < 90 else count(round(seconds / 60), "minute")


def _removed(store: Vectors, fingerprint: str | None) -> int:
    """Remove the vectors of one model, or of all models. Return the number of models."""
    gone = [each for each in store.embedders() if fingerprint in (None, each)]
    for each in gone:
        store.remove_vectors(each)
    return len(gone)


def _text(embedder: "Embedder", found: Mapping[str, dict[str, int]]) -> str:
    lines = [f"model {embedder.name}"]
    for name, each in found.items():
        size = f"{each['bytes'] / 1e6:.1f} MB"
        lines.append(f"{name}: {each['messages']:,} of {count(each['of'], 'message')}, {size}")
        if others := each["other_models"]:
            lines.append(f"  and vectors of {count(others, 'other model')}; `foldmark index --remove` removes all")
    return "\n".join(lines)


def offer_install(commands: Sequence[Sequence[str]]) -> bool:
    """Run the commands, which the person has seen, if the person agrees. Return False if the person refuses or a
    command fails. Afterwards, the installed packages can be imported."""
    from importlib import invalidate_caches

    from foldmark.chat.lines.person import asks

    if missing := next((each[0] for each in commands if not shutil.which(each[0])), None):
        warn(f"{missing} is not on your PATH; install it first")
        return False
    if not asks("Run this now?" if len(commands) == 1 else "Run these now?"):
        return False
    import subprocess  # here, since `foldmark --help` loads every command

    try:
        return all(subprocess.run(command, check=False).returncode == 0 for command in commands)
    finally:
        invalidate_caches()
