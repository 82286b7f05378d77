"""Look up built-in objects and those of installed packages (entry points) by name.

A built-in is a row of a table, "module:attribute"; another package lists the same in its `[project.entry-points]`. The
attribute is the object, or a class without parameters that makes it. Entry points are read only for a name that is not
built in.
"""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from foldmark.core.errors import CommandError, FoldmarkError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

DIALECTS, PROVIDERS, STORES = "foldmark.dialects", "foldmark.providers", "foldmark.stores"
SESSION_FORMATS, LIVE_AGENTS, WIRES = "foldmark.session_formats", "foldmark.live_agents", "foldmark.wires"
"""Groups of entry points."""

T = TypeVar("T")


def find(group: str, name: str, kind: type[T], built_in: Mapping[str, str] = {}) -> T | None:
    """Return the object with this name in a group of entry points; None if there is none.

    Raises CommandError if the object fails to load, is not a `kind` or has another name. An error that its package
    words itself, such as about a missing driver, is passed on.
    """
    if where := built_in.get(name):
        found = _made(loaded(where), kind)
    elif name in names(group):
        point = _entry_points(group)[name]
        where = f"{point.value}, installed as {group} '{name}',"
        try:
            found = _made(point.load(), kind)
        except FoldmarkError:
            raise
        except Exception as error:
            raise CommandError(f"{where} fails: {error!r}") from error
        if kind is not type and isinstance(found, kind) and getattr(found, "name", None) != name:
            raise CommandError(f"{where} has another name: {getattr(found, 'name', None)!r}")
    else:
        return None
    if not isinstance(found, kind):
        raise CommandError(f"{group} '{name}' is a {type(found).__name__}, not a {kind.__name__}")
    return found


def names(group: str) -> list[str]:
    """Return the names that installed packages provide in a group, sorted."""
    return sorted(_entry_points(group).names)


def loaded(target: str) -> Any:
    """Import "module:attribute" and return the attribute."""
    module, _, attribute = target.partition(":")
    return getattr(__import__(module, fromlist=[attribute]), attribute)  # importlib costs a hook 0.5 ms more


def entry_points(group: str) -> "EntryPoints":
    """Return the entry points of a group, as they are installed now."""
    from importlib import metadata  # takes 30 ms

    return metadata.entry_points(group=group)


def _made(found: Any, kind: type) -> Any:
    return found() if isinstance(found, type) and kind is not type else found


_entry_points = cache(entry_points)
