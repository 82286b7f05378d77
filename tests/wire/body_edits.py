"""Edits that make a bad body from a good one. Each changes the given body and returns it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

Edit: TypeAlias = Callable[[Any], Any]


class Bad(NamedTuple):
    dialect: str
    good: str
    edit: Edit
    violations: tuple[str, ...]


def _holder(body: Any, path: tuple[str | int, ...]) -> Any:
    for step in path[:-1]:
        body = body[step]
    return body


def put(*path: str | int, value: Any) -> Edit:
    """Set one member."""

    def edit(body: Any) -> Any:
        _holder(body, path)[path[-1]] = value
        return body

    return edit


def drop(*path: str | int) -> Edit:
    """Remove one member."""

    def edit(body: Any) -> Any:
        del _holder(body, path)[path[-1]]
        return body

    return edit


def insert(*path: str | int, value: Any) -> Edit:
    """Insert one item before the one at the path."""

    def edit(body: Any) -> Any:
        _holder(body, path).insert(path[-1], value)
        return body

    return edit


def again(*path: str | int) -> Edit:
    """Duplicate one item."""

    def edit(body: Any) -> Any:
        items = _holder(body, path)
        items.insert(path[-1], copy.deepcopy(items[path[-1]]))
        return body

    return edit


def turned(*path: str | int) -> Edit:
    """Reverse an array."""

    def edit(body: Any) -> Any:
        _holder(body, path)[path[-1]].reverse()
        return body

    return edit


def renamed(old: str, new: str) -> Edit:
    """Replace a string wherever it occurs as a value."""

    def edit(body: Any) -> Any:
        if isinstance(body, dict):
            return {key: edit(member) for key, member in body.items()}
        if isinstance(body, list):
            return [edit(member) for member in body]
        return new if body == old else body

    return edit
