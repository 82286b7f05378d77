"""Results that a later read or write of the same file has made stale (SPEC 5.7)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from foldmark.core.assembly.superseded import stale as stale_among
from foldmark.core.events import Event

LONG, SHORT = "line\n" * 50, "ok"
Use = tuple[str, dict[str, Any]]


def pairs(*uses: Use, texts: dict[int, str] | None = None, failed: int | None = None) -> list[tuple[Event, Event]]:
    """Return calls with their results: use N has the ids 2N and 2N + 1."""
    found = []
    for number, (name, args) in enumerate(uses):
        data = {"call_id": f"c{number}", "name": name}
        call = Event(
            2 * number, "a", 1, "tool_call", msgspec.json.encode(args).decode(), data, None, "model", 1, "", False
        )
        text, told = (texts or {}).get(number, LONG), {"is_error": True} if number == failed else {}
        result = Event(
            2 * number + 1, "a", 1, "tool_result", text, {"call_id": f"c{number}", **told}, None, "system", 1, "", False
        )
        found.append((call, result))
    return found


def stale(*uses: Use, **more: Any) -> dict[int, tuple[int, str]]:
    """Return number of a stale use -> (number of the use that made it stale, `read` or `write`)."""
    return {each.result // 2: (each.by // 2, each.how) for each in stale_among(pairs(*uses, **more)).values()}


def read(path: str = "a.py", **more: Any) -> Use:
    return "read_file", {"path": path, **more}


def write(path: str = "a.py") -> Use:
    return "write_file", {"path": path, "content": "x"}


@pytest.mark.parametrize(
    ("uses", "expected"),
    [
        ([read(), read()], {0: (1, "read")}),
        ([read(), write()], {0: (1, "write")}),
        ([read(), read(), write()], {0: (2, "write"), 1: (2, "write")}),
        ([read(), read("b.py"), write("c.py")], {}),
        ([write(), read()], {0: (1, "read")}),
        # A partial read does not replace the rest, and a write affects every part.
        ([read(), read(offset=5, limit=10)], {}),
        ([read(offset=5, limit=10), read()], {0: (1, "read")}),
        ([read(offset=5, limit=10), read(offset=1, limit=40)], {0: (1, "read")}),
        ([read(offset=5, limit=10), read(offset=8, limit=10)], {}),
        ([read(offset=5, limit=10), write()], {0: (1, "write")}),
        ([read(pages="1-2"), read()], {}),
        ([read(pages="1-2"), read(pages="1-2")], {0: (1, "read")}),
        # The names and paths of other programs.
        (
            [("Read", {"file_path": "/w/a.py"}), ("Edit", {"file_path": "/w/./a.py", "old_string": "x"})],
            {0: (1, "write")},
        ),
        ([("mcp__fs__read_text_file", {"path": "a"}), ("mcp__fs__edit_file", {"path": "a"})], {0: (1, "write")}),
        (
            [
                ("str_replace_based_edit_tool", {"command": "view", "path": "a", "view_range": [3, 9]}),
                ("str_replace_based_edit_tool", {"command": "view", "path": "a", "view_range": [1, -1]}),
            ],
            {0: (1, "read")},
        ),
        (
            [
                read("x/a.py"),
                read("b.py"),
                ("apply_patch", {"input": "*** Begin Patch\n*** Update File: x/a.py\n@@\n"}),
            ],
            {0: (2, "write")},
        ),
        # Calls of other tools, or with unreadable arguments.
        ([read(), ("bash", {"command": "rm a.py"})], {}),
        ([read(), ("write_file", {"path": 7})], {}),
        ([read(), ("write_file", ["a.py"])], {}),
    ],
)
def test_a_later_read_or_write_makes_a_result_stale(uses: list[Use], expected: dict[int, tuple[int, str]]) -> None:
    assert stale(*uses) == expected


def test_a_failed_call_makes_nothing_stale_and_its_error_is_not_stale() -> None:
    assert stale(read(), write(), failed=1) == {}
    assert stale(read(), write(), failed=0) == {}


def test_a_second_read_that_reports_no_change_replaces_nothing() -> None:
    """Claude Code answers this way. The first result then still holds the file."""
    assert stale(read(), read(), texts={1: "File unchanged since last read."}) == {}
    assert stale(read(), write(), texts={1: SHORT}) == {0: (1, "write")}
