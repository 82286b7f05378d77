"""What is found by name: built in, or brought by an installed package through an entry point.

Both come through the same door: a built-in is a row of a table, "module:attribute", and a package of somebody else's
says the same in its `[project.entry-points]`. Entry points are read only for a name that is not built in.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from foldmark.core.errors import CommandError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

DIALECTS, PROVIDERS, STORES = "foldmark.dialects", "foldmark.providers", "foldmark.stores"
"""Groups of entry points."""

T = TypeVar("T")


def find(group: str, name: str, kind: type[T], built_in: Mapping[str, str] = {}) -> T | None:
    """Return what `name` stands for in a group of entry points; None if nothing has this name.

    Raises CommandError if the package that has the name fails to load, or has no `kind` there.
    """
    if where := built_in.get(name):
        module, _, attribute = where.partition(":")
        found = getattr(import_module(module), attribute)
    elif name in names(group):
        point = _entry_points(group)[name]
        try:
            found = point.load()
        except Exception as error:
            raise CommandError(f"{point.value}, installed as {group} '{name}', fails: {error!r}") from error
    else:
        return None
    if not isinstance(found, kind):
        raise CommandError(f"{group} '{name}' is a {type(found).__name__}, not a {kind.__name__}")
    return found


def names(group: str) -> list[str]:
    """Return the names that installed packages have in a group, in order."""
    return sorted(_entry_points(group).names)


@cache
def _entry_points(group: str) -> "EntryPoints":
    from importlib.metadata import entry_points  # 30 ms, for whoever has a package of such a group

    return entry_points(group=group)
