"""Which calls belong to which tools, and whose results are to be cut [SPEC 8]."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

_REMEMBERED = 100_000
"""Calls that are remembered; of more, as only sessions of many hundred MB have them, the newer half."""

UNKNOWN = "(unknown)"
"""The tool of a result whose call is nowhere in the file."""


class Targets:
    """The tools whose results are to be cut: names or patterns such as `mcp__*`, compared without case."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = tuple(pattern.casefold() for pattern in patterns)
        self._known: dict[str, bool] = {}

    @property
    def everything(self) -> bool:
        """Whether also a result is meant of which nobody knows the tool."""
        return "*" in self._patterns

    def __contains__(self, name: str) -> bool:
        known = self._known.get(name)
        if known is None:
            if len(self._known) > 1000:
                self._known.clear()
            folded = name.casefold()
            known = self._known[name] = any(
                fnmatchcase(folded, pattern) or folded == pattern for pattern in self._patterns
            )
        return known


class CallNames:
    """Which calls were met, as far as the file has been read.

    `found` is call id -> tool; `missed` are the ids of results that might have been cut, had their calls stood before
    them; `late` is whether the call of one of these came then. `earlier` is what an earlier pass has found.
    """

    def __init__(self, targets: Targets, earlier: Mapping[str, str]) -> None:
        self.found: dict[str, str] = {}
        self.late = False
        self.missed: dict[str, None] = {}
        self._targets, self._earlier = targets, earlier

    def add(self, call_id: str, name: str) -> None:
        """A call was read."""
        self.found[call_id] = name
        if call_id in self.missed and name in self._targets:
            self.late = True
        if len(self.found) > _REMEMBERED:
            _halve(self.found)

    def known(self, call_id: str) -> str | None:
        """The tool of a call that was met in this pass or in an earlier one."""
        return self.found.get(call_id) or self._earlier.get(call_id)

    def tool(self, call_id: str, *, long: bool) -> str | None:
        """The tool of a result, if it is one whose results are to be cut. `long`: whether it would be cut."""
        name = self.known(call_id)
        if name is not None:
            return name if name in self._targets else None
        if long and call_id:
            self.missed[call_id] = None
            if len(self.missed) > _REMEMBERED:
                _halve(self.missed)
        return UNKNOWN if self._targets.everything else None


def _halve(held: dict[str, str] | dict[str, None]) -> None:
    for key in list(held)[: len(held) // 2]:
        del held[key]
