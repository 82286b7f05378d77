"""Results that later calls superseded (SPEC 5.7, 8)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from foldmark.core.assembly.superseded import exchange, superseded
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


# Real sessions: the tools of Claude Code, Codex and Gemini CLI.

BASH = ("Bash", {"command": "make test", "description": "Run the tests"})
SHELL = ("shell", {"command": ["bash", "-lc", "make test"], "workdir": "/w", "timeout_ms": 1000})
PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** End Patch"
REJECTION = "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\nUse tabs."


def reasons(*uses: Use, texts: dict[int, str] | None = None, failed: int | None = None) -> dict[int, dict[str, int]]:
    """Return number of a superseded use -> reason -> number of the use that superseded it."""
    texts = {number: (texts or {}).get(number, f"{number} {LONG}") for number in range(len(uses))}
    made = superseded(exchange(*each) for each in pairs(*uses, texts=texts, failed=failed))
    return {id // 2: {each.why: each.by // 2 for each in found} for id, found in made.items()}


@pytest.mark.parametrize(
    ("uses", "expected"),
    [
        # Repeated: the same arguments, whatever is said beside them.
        ([BASH, ("Bash", {"command": "make test", "timeout": 9})], {0: {"repeated": 1}}),
        ([BASH, ("Bash", {"command": "make lint"})], {}),
        ([("Grep", {"pattern": "x"}), ("Grep", {"pattern": "x"}), ("Glob", {"pattern": "x"})], {0: {"repeated": 1}}),
        ([SHELL, SHELL], {0: {"repeated": 1}}),
        ([("exec_command", {"cmd": "ls"}), ("exec_command", {"cmd": "ls", "yield_time_ms": 5})], {0: {"repeated": 1}}),
        ([("run_shell_command", {"command": "ls"}), ("run_shell_command", {"command": "ls"})], {0: {"repeated": 1}}),
        # The same arguments ask for something new.
        ([("BashOutput", {"bash_id": "1"}), ("BashOutput", {"bash_id": "1"})], {}),
        ([("write_stdin", {"session_id": 1}), ("write_stdin", {"session_id": 1})], {}),
        ([("Task", {"prompt": "look"}), ("Task", {"prompt": "look"})], {}),
        ([("AskUserQuestion", {"questions": []}), ("AskUserQuestion", {"questions": []})], {}),
        # Stale.
        ([("Read", {"file_path": "a"}), ("MultiEdit", {"file_path": "a"})], {0: {"stale": 1}}),
        ([("read_file", {"absolute_path": "a"}), ("replace", {"file_path": "a"})], {0: {"stale": 1}}),
        ([("shell", {"command": ["cat", "a.py"]}), ("apply_patch", {"input": PATCH})], {0: {"stale": 1}}),
        (
            [("exec_command", {"cmd": "sed -n '1,9p' a.py"}), ("shell", {"command": ["apply_patch", PATCH]})],
            {0: {"stale": 1}},
        ),
        (
            [("shell_command", {"command": "sed -n 5,9p a.py"}), ("shell_command", {"command": "cat a.py"})],
            {0: {"stale": 1}},
        ),
        ([("shell", {"command": ["bash", "-lc", "cat a.py | head"]}), ("apply_patch", {"input": PATCH})], {}),
        # Todo lists.
        ([("TodoWrite", {"todos": [1]}), ("TodoWrite", {"todos": [2]})], {0: {"todos": 1}}),
        ([("update_plan", {"plan": [1]}), ("update_plan", {"plan": [2]})], {0: {"todos": 1}}),
        ([("write_todos", {"todos": [1]}), ("write_todos", {"todos": [2]})], {0: {"todos": 1}}),
        ([("TaskList", {}), ("TaskUpdate", {"taskId": "1"}), ("TaskUpdate", {"taskId": "2"})], {0: {"todos": 2}}),
    ],
)
def test_the_reasons_in_sessions_of_real_agents(uses: list[Use], expected: dict[int, dict[str, int]]) -> None:
    assert reasons(*uses) == expected


@pytest.mark.parametrize(
    ("use", "failure"),
    [
        (BASH, ""),
        (("Edit", {"file_path": "a", "old_string": "x"}), ""),
        (SHELL, "Exit code: 2\nWall time: 1 seconds\nOutput:\nwrong"),
        (("exec_command", {"cmd": "make"}), "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 1\nwrong"),
        (("shell", {"command": ["make"]}), '{"output":"wrong","metadata":{"exit_code":1}}'),
        (("run_shell_command", {"command": "make"}), "Output: wrong\nExit Code: 1\n"),
    ],
)
def test_a_failed_call_that_later_succeeded(use: Use, failure: str) -> None:
    texts, failed = {0: failure or "wrong"}, None if failure else 0
    assert reasons(use, use, texts=texts, failed=failed) == {0: {"failed": 1}}
    other = (use[0], {**use[1], "command": "other", "cmd": "other", "file_path": "other"})
    assert reasons(use, other, texts=texts, failed=failed) == {}
    assert reasons(use, texts=texts, failed=failed) == {}
    if not failure:
        assert reasons(use, use, texts={0: REJECTION}, failed=0) == {}  # a person's words


def test_the_same_content_is_repeated_only_by_the_same_tool() -> None:
    same = {0: LONG, 1: LONG, 2: LONG}
    uses = [("Bash", {"command": each}) for each in ("one", "two")]
    assert reasons(*uses, ("Grep", {"pattern": "x"}), texts=same) == {0: {"repeated": 1}}
    assert reasons(read(), read("b.py"), texts=same) == {}  # another file


def test_an_evicted_result_replaces_none() -> None:
    first, second = pairs(read(), read())
    assert superseded([exchange(*first), exchange(*second, shown=False)]) == {}
    assert list(superseded([exchange(*first, shown=False), exchange(*second)])) == [1]


_USES = st.sampled_from(
    [read(), read("b.py"), read(offset=5, limit=10), write(), BASH, SHELL, ("TodoWrite", {"todos": [1]}), ("Task", {})]
)
_CALLS = st.lists(st.tuples(_USES, st.sampled_from(["x" * 90, "y" * 90, "z"]), st.booleans()), max_size=12)


@given(_CALLS)
def test_a_superseded_result_is_always_followed_by_what_superseded_it(calls: list[tuple[Use, str, bool]]) -> None:
    made = []
    for number, (use, text, failed) in enumerate(calls):
        ((call, result),) = pairs(use, texts={0: text}, failed=0 if failed else None)
        made.append(exchange(replace(call, id=2 * number), replace(result, id=2 * number + 1)))
    by_call = {each.by: each for each in made}
    found = superseded(made)
    for id, because in found.items():
        (older,) = (each for each in made if each.id == id)
        assert len({each.why for each in because}) == len(because)
        for each in because:
            newer = by_call[each.by]
            assert each.result == id < newer.id
            assert not newer.failed or each.how == "content"
            assert older.failed or each.why != "failed"
            if each.how in ("read", "content", "arguments"):  # a result that shows it stays at the end
                assert newer.id not in found or found[newer.id] != because
    for size in range(len(made)):  # later calls take no reason away
        assert superseded(made[:size]).keys() <= found.keys()
    if made:
        assert made[-1].id not in found
