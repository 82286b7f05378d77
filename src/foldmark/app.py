"""The composition root: connects settings, stores, providers and the runtime."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from os import PathLike, fspath
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any

from msgspec import structs

from foldmark.core.codec import Secrets, timestamp
from foldmark.core.errors import FoldmarkError
from foldmark.settings.given import Settings, Value
from foldmark.settings.user_folders import config_folder, database_path, default_database, named_database
from foldmark.stores.addresses import may_exist, open_store, passwords, scheme

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from foldmark.core.ports import Provider, Store
    from foldmark.core.search import Vectors
    from foldmark.log import Agent, Log, Result
    from foldmark.operations.effects import Asking
    from foldmark.runtime.supervisor import Audience, Supervisor
    from foldmark.tools import Tool


def open(
    path: str | PathLike[str], *, create: bool = True, settings: Settings | Mapping[str, Any] | None = None
) -> "Log":
    """Open the log in the SQLite file at `path`, in memory for ":memory:", or in the PostgreSQL database at an address
    that begins with "postgresql://" [SPEC 9].

    A missing file, and tables in an empty database, are created unless `create` is false. Settings are read as on the
    command line [SPEC 10], from environment, project and user file. A mapping `settings` (key -> value) replaces them;
    {} means the built-in defaults. Agents may change them. Recall also searches the coding sessions archived on this
    machine, except for a log in memory or if a mapping of settings excludes this machine. Raises CommandError for
    invalid settings, and StoreError if the file is not a database, not Foldmark's, written by a newer Foldmark, or in a
    folder that does not exist.
    """
    path = fspath(path)
    own = isinstance(settings, Settings | None)
    given = settings if isinstance(settings, Settings) else read_settings() if settings is None else _given(settings)
    return _over(open_store(path, create=create), structs.replace(given, knows_sessions=own))


def open_over(store: "Store", settings: Mapping[str, Any] = {}) -> "Log":
    """Open the log in your own store [docs/development/stores.md].

    `settings` (key -> value) override the built-in defaults.

    Closing the log closes the store. Raises CommandError for invalid settings.
    """
    return _over(store, _given(settings))


def _over(store: "Store", given: Settings) -> "Log":
    from foldmark.log import Log

    secrets = _secrets(given, store.address)
    given = _without_keys(given, secrets) if secrets else given
    return Log(store, _now, _new_id, _Program(store), given, secrets)


def read_settings(options: Mapping[str, Any] = {}) -> Settings:
    """Return the settings of this process from its environment, its working folder and the user's folder [SPEC 10].
    `options` (key -> value) come from the command line and override all others. Raises CommandError."""
    from foldmark.settings.loading import load

    try:
        working = Path.cwd()
    except OSError:  # the folder was removed
        working = None
    return load(os.environ, working, Path(config_folder(os.environ)), options)


def known_keys() -> Secrets:
    """Return the keys of all providers, to hide them in a text before it is shown. If the settings are invalid, the
    keys of configured providers are missing."""
    try:
        return _secrets(read_settings())
    except FoldmarkError:
        return _secrets(Settings())


def _secrets(settings: Settings, database: str = "") -> Secrets:
    """Return the keys of all providers in this process's environment, and the passwords of databases."""
    from foldmark.settings.access import keys  # takes 4 ms

    addresses = (os.environ.get("FOLDMARK_DB", ""), settings.database or "", database)
    found = {word: "password of the database" for address in addresses for word in passwords(address)}
    return Secrets(keys(os.environ, settings), found)


def _without_keys(settings: Settings, secrets: Secrets) -> Settings:
    """Return the settings for the log, without keys: a system prompt from a file or the environment may contain one."""

    def hidden(values: Mapping[str, Value]) -> dict[str, Value]:
        return {
            key: each._replace(value=secrets.hidden(each.value)) if isinstance(each.value, str) else each
            for key, each in values.items()
        }

    return structs.replace(settings, defaults=hidden(settings.defaults), overrides=hidden(settings.overrides))


def _given(keys: Mapping[str, Any]) -> Settings:
    from foldmark.settings.loading import program_settings

    return program_settings(keys)


# Modules that only some programs use are imported on use, which halves the time of `import foldmark`.


class _Program:
    """The commands and the tools (`foldmark.log.log.Program`)."""

    def __init__(self, store: "Store") -> None:
        self._store = store

    @cached_property
    def tools(self) -> "Mapping[str, Tool]":
        from foldmark.tools import TOOLS, query_db

        if self._store.sandbox is None:
            return TOOLS
        own = structs.replace(query_db.QUERY_DB, spec=query_db.spec(self._store.sandbox.dialect))
        return {**TOOLS, own.spec.name: own}

    def do(self, agent: "Agent", line: str, actor: str, asking: "Asking") -> "Result":
        from foldmark.commands import REGISTRY

        return REGISTRY(agent, line, actor, asking)


def supervise(
    log: "Log", models: "Callable[[str], Provider] | None" = None, audience: "Audience | None" = None
) -> "Supervisor":
    """Return the supervisor of the log's agents, an asynchronous context manager. It runs turns in the foreground and
    forked children in the background [SPEC 6].

    `models` creates the provider for a model name; the default is `provider` of `foldmark.sending.models`. `audience`
    is notified about agents in the background (`foldmark.runtime.supervisor.Audience`).
    """
    from foldmark.runtime.supervisor import Supervisor
    from foldmark.sending.models import provider

    return Supervisor(log, models or (lambda name: provider(name, log.given)), audience)


def embedding(path: str, settings: Settings) -> "AbstractContextManager[None]":
    """During the block, keep the vectors of the database at `path` and of archived sessions up to date in the
    background. Without vectors, do nothing; `foldmark index` makes the first ones."""
    from foldmark.recall.embeddings.stored import VectorDatabase, kept_up
    from foldmark.sessions.archive.index import NAME
    from foldmark.sessions.archive.storing import archive_folder
    from foldmark.sessions.archive.vectors import opened

    folder = archive_folder(os.environ)
    sources = [VectorDatabase(folder / NAME, lambda: opened(folder))]
    if not scheme(path):  # for a database on a server, one of the machines runs `foldmark index`
        sources.append(VectorDatabase(Path(path), lambda: _vectors(path)))
    return kept_up(sources, settings.recall_model)


@contextmanager
def _vectors(path: str) -> Iterator["Vectors"]:
    """Open the vectors of the database at a path, for the calling thread."""
    with closing(open_store(path, create=False)) as store:
        assert store.vectors is not None
        yield store.vectors


def _now() -> str:
    seconds, microseconds = divmod(time_ns() // 1000, 1_000_000)
    return f"{_second(seconds)}.{microseconds:06}Z"


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    return timestamp(datetime.fromtimestamp(seconds, UTC), "seconds")[:-1]  # cached: many events share a second


def _new_id() -> str:
    from uuid import uuid4

    return str(uuid4())


class Setup:
    """The settings and the database of a command, each read on first use. `db` is the database named on the command
    line, if any. With `in_utc`, the texts of commands show times in UTC, otherwise in local time."""

    def __init__(self, db: str | None, *, in_utc: bool = False) -> None:
        self._named, self.in_utc = db, in_utc

    @cached_property
    def given(self) -> Settings:
        """The settings of this process. Raises CommandError."""
        return read_settings()

    @cached_property
    def db(self) -> str:
        """The address of the database: a path, or a URL."""
        return self._chosen or default_database(os.environ)

    @property
    def has_database(self) -> bool:
        """True if the database exists. A database on a server counts as existing, because only opening it would
        show."""
        return may_exist(self.db)

    @property
    def delay(self) -> float:
        """Seconds between the offline model's words."""
        from foldmark.settings.access import offline_delay

        return offline_delay(os.environ, sys.stdout.isatty(), self.given.offline_delay)

    @property
    def _chosen(self) -> str | None:
        return database_path(self._named) if self._named else named_database(os.environ, self.given.database)

    def opened(self, *, create: bool, given: Settings | None = None) -> "Log":
        """Open the log with these settings, by default those of the process. Create Foldmark's folder if needed."""
        if create:
            self._make_folder()
        return open(self.db, create=create, settings=given or self.given)

    def _make_folder(self) -> None:
        if not self._chosen:
            from foldmark.stores.folders import make_folder

            make_folder(Path(self.db).parent)

    @contextmanager
    def log(self, *, create: bool, given: Settings | None = None) -> "Iterator[Log]":
        """Open the log for a block, as `opened` does. Report a file that other users could read until now."""
        given = structs.replace(given or self.given, local_times=not self.in_utc)
        with self.opened(create=create, given=given) as log:
            self._tell_narrowed(log.store)
            yield log

    def _tell_narrowed(self, store: "Store") -> None:
        if store.narrowed:
            from foldmark.rendering import harmless

            said = f"{self.db} could be read by other users of this machine; now only you can."
            print(harmless(said), file=sys.stderr)


def nothing_to(do: str) -> str:
    """Return the message of a program that should `do` something but finds neither an archive nor a database."""
    return (
        f"there is nothing to {do} yet: `foldmark sync` archives coding agents' sessions, `foldmark chat` starts a "
        "conversation"
    )
