"""The databases of earlier schema versions that `make.py` made."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import apsw

from foldmark.stores.queries import migrations

KEPT = Path(__file__).parent
UNWRITTEN = (2, 3)
"""Versions that no Foldmark wrote: databases of version 1 got these migrations together with the fourth."""


def of_version(version: int, path: Path) -> dict[str, Any]:
    """Put the database of a schema version at `path` and return the contexts that its own Foldmark showed."""
    written = 1 if version in UNWRITTEN else version
    packed = KEPT / f"schema-{written:02}.db.gz"
    assert packed.exists(), f"not kept: run tests/stores/versions/make.py {written:02} without the new migration"
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    db = apsw.Connection(str(path))
    for number, sql in migrations("sqlite")[written:version]:
        db.execute(sql)
        db.execute(f"PRAGMA user_version = {number}")
    assert db.pragma("user_version") == version
    db.close()
    contexts: dict[str, Any] = json.loads((KEPT / f"schema-{written:02}.json").read_text("utf-8"))
    return contexts
