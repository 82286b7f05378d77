"""What a command of the command line works with: its settings and its database, each read when first needed."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import foldmark
from foldmark.app import read_settings
from foldmark.interfaces.render import harmless
from foldmark.log import Log
from foldmark.settings import paths
from foldmark.settings.given import Settings
from foldmark.stores.addresses import may_exist
from foldmark.stores.sqlite.file import make_folder


class Setup:
    """`db` is the database that was named on the command line, if one was."""

    def __init__(self, db: str | None) -> None:
        self._named = db

    @cached_property
    def given(self) -> Settings:
        """The settings of this process. Raises CommandError."""
        return read_settings()

    @cached_property
    def db(self) -> str:
        """The address of the database: a path, or a URL."""
        return self._named or paths.database(os.environ, self.given.database)

    @property
    def has_database(self) -> bool:
        """Whether there is a database; of one on a server nobody knows before it is opened."""
        return may_exist(self.db)

    @property
    def delay(self) -> float:
        """Seconds between the offline model's words."""
        return paths.offline_delay(os.environ, sys.stdout.isatty(), self.given.offline_delay)

    @contextmanager
    def log(self, *, create: bool, given: Settings | None = None) -> Iterator[Log]:
        """The log, with these settings or the process's own; the folder of our own database is made as needed."""
        if create and not self._named and paths.is_default(self.db, os.environ, self.given.database):
            make_folder(Path(self.db).parent)
        with foldmark.open(self.db, create=create, settings=given or self.given) as log:
            if log.store.narrowed:
                told = "could be read by other users of this machine; now only you can"
                print(harmless(f"{self.db} {told}."), file=sys.stderr)
            yield log
