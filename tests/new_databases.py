"""New SQLite databases that are copies of one: running the schema in each would take longer than many tests. Nor
does a commit wait for the disk: that protects against a power cut, which no process of a test can see.

As in normal use, the tests of creating and syncing a database (`tests/stores/conftest.py`) and a deep run
create each database by its schema, and commit to the disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import get_ident
from typing import Any

import apsw
import pytest

from foldmark.stores.sqlite import file

_connect, _create, _prepare = file._connect, file._create, file._prepare


@contextmanager
def copied() -> Iterator[None]:
    """Make new databases copies, and let no commit wait for the disk, while the block runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file, "_connect", _copied_in_memory)
        patch.setattr(file, "_create", _copied_file)
        patch.setattr(file, "_prepare", _prepared_without_waiting)
        yield


@contextmanager
def made() -> Iterator[None]:
    """Create each new database by its schema, and let commits wait for the disk, while the block runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file, "_connect", _connect)
        patch.setattr(file, "_create", _create)
        patch.setattr(file, "_prepare", _prepare)
        yield


def _prepared_without_waiting(db: apsw.Connection, path: str, create: bool) -> None:
    _prepare(db, path, create)
    db.execute("PRAGMA synchronous = OFF")


def _copied_in_memory(path: str, create: bool, place: str, **how: Any) -> apsw.Connection:
    db = _connect(path, create, place, **how)
    if path == file.MEMORY:
        with db.backup("main", _in_memory(), "main") as backup:
            backup.step()
    return db


def _copied_file(path: Path) -> None:
    """Create the file under its name only when it is complete, since others may open it at any moment."""
    if path.exists():
        return
    whole = path.with_name(f".{os.getpid()}-{get_ident()}.new")
    _create(whole)
    try:
        whole.write_bytes(_whole_file())
        os.link(whole, path)
    except FileExistsError:
        pass
    except OSError as error:
        raise apsw.CantOpenError(str(error)) from None
    finally:
        whole.unlink()


@cache
def _in_memory() -> apsw.Connection:
    with made():
        return file.open_file(file.MEMORY, True, file.place_of(file.MEMORY))


@cache
def _whole_file() -> bytes:
    with made(), TemporaryDirectory() as folder:
        path = Path(folder) / "log.db"
        file.open_file(str(path), True, str(path)).close()
        return path.read_bytes()
