"""Shared by the tests of documents: a conversation with everything in it, its documents, and their import."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import foldmark
from foldmark.documents.exporting import Form, document
from foldmark.documents.json_import import DocumentReport, import_document, read_document

sys.path.append(str(Path(__file__).parents[1] / "stores"))

from every_kind import fill

__all__ = ["exported", "fill", "imported", "written"]


def written(agent: foldmark.Agent, form: Form, *, only_context: bool = False) -> str:
    """Return a document as text."""
    return "".join(document(agent, form, lambda *_: None, only_context=only_context))


def exported(agent: foldmark.Agent, *, only_context: bool = False) -> dict[str, Any]:
    """Return a JSON document."""
    found: dict[str, Any] = json.loads(written(agent, "json", only_context=only_context))
    return found


def imported(log: foldmark.Log, file: Path, content: object, name: str | None = None) -> DocumentReport:
    """Write a document, given as bytes or as a value, and import it."""
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return import_document(log, read_document(file), name)
