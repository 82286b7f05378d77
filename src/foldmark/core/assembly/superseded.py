"""Find the tool results that later calls superseded [SPEC 5.7, 8]. Pure.

A result is superseded for one or several reasons:

- `stale`: it shows a file, and a later call read the same lines or wrote the file.
- `repeated`: a later result of the same tool has the same content, about the same file if it is about one, or answers
  the same arguments.
- `failed`: its call failed, and a later call of the same tool for the same target succeeded.
- `todos`: it belongs to a todo list, and a later call wrote or showed the whole list.

Tools are recognized by the names that programs give them, files by the path in the arguments. In case of doubt a result
is not superseded: neither a failed call nor a different spelling of the path makes it stale, and a person's words are
never superseded.
"""

import posixpath
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from foldmark.core.events import Event

STALE, REPEATED, FAILED, TODOS = REASONS = ("stale", "repeated", "failed", "todos")

READS = frozenset(
    (
        *("read", "read_file", "read_text_file", "readfile", "view", "view_file", "open_file", "notebookread"),
        *("read_media_file", "getfile", "get_file"),
    )
)
WRITES = frozenset(
    (
        *("write", "write_file", "writefile", "create_file", "create", "edit", "edit_file", "multiedit", "multi_edit"),
        *("str_replace", "insert", "replace", "notebookedit", "apply_patch"),
    )
)
RUNS = frozenset(
    (
        *("bash", "shell", "shell_command", "local_shell", "exec", "exec_command"),
        *("run_shell_command", "run_command", "execute_command", "run_terminal_cmd", "powershell"),
    )
)
TODO_LISTS = {
    **dict.fromkeys(("todowrite", "todo_write", "todoread", "todo_read", "write_todos", "update_plan"), "todos"),
    **dict.fromkeys(("tasklist", "task_list"), "tasks"),
}
TODO_CHANGES = dict.fromkeys(("taskcreate", "taskupdate", "task_create", "task_update"), "tasks")
"""Tools that read files, write files, run commands, show or write a whole todo list, and change one: names in lower
case without a server's prefix. Lists of one kind replace each other, and changes make a list out of date."""

PERSONS = frozenset(("askuserquestion", "ask_user", "ask_user_question", "request_user_input", "exitplanmode"))
"""Tools whose results are a person's answers."""

WORKERS = frozenset(("task", "agent", "spawn_agent", "skill", "activate_skill"))
_GOES_ON = frozenset(
    (
        *WORKERS,
        *("bashoutput", "taskoutput", "agentoutputtool", "write_stdin", "wait", "wait_agent", "send_input", "monitor"),
    )
)
"""Tools that do work, and tools that go on where an earlier call ended: the same arguments ask for something new."""

REJECTED = ("The user doesn't want to", "[Request interrupted by user")
"""How Claude Code begins the result of a call that a person rejected; the person's words may follow."""

UNCHANGED = "File unchanged since last read"
"""How Claude Code answers a second read of a file: the first result still holds the text."""

_PATHS = ("path", "file_path", "filePath", "absolute_path", "notebook_path", "target_file", "filename")
_SPANS = ("offset", "limit", "start_line", "end_line", "view_range")
_REMARKS = frozenset(
    (
        *("description", "timeout", "timeout_ms", "yield_time_ms", "max_output_tokens", "justification", "explanation"),
        *("with_escalated_permissions", "sandbox_permissions", "dangerouslyDisableSandbox", "instruction"),
    )
)
"""Arguments that do not change what is asked."""

_COMMANDS = ("command", "cmd", "script")
_FOLDERS = ("workdir", "cwd", "dir_path", "directory")
# As texts, so that no pattern is compiled at startup.
_PATCHED = r"(?m)^\*\*\* (?:Add|Update|Delete) File: (.+)$"
_PLAIN = r"(?P<path>[\w./@+-]+|'[^'\n]+'|\"[^\"\n$`\\]+\")"
_SHOWS = ("cat ", "nl -ba ", "sed -n ", "head -")
_SHOWS_FILE = (
    r"(?:cat|nl -ba|sed -n (?P<quote>['\"]?)(?P<first>\d+),(?P<last>\d+)p(?P=quote)|head -(?:n ?)?(?P<head>\d+)) "
    rf"{_PLAIN}"
)
"""A command that only shows a file, as Codex and other agents with nothing but a shell read."""

_EXIT = r"(?mi)^(?:Exit code:|Process exited with code) [1-9]|^\{.*\"exit_code\":\s*[1-9]"
_ENDS = 400
"""Characters at both ends of a command's result in which its exit code is looked for."""

END = 1 << 62


class FileUse(Struct, frozen=True):
    """A use of one file, `read` or `write`; `span` is the first and the last line. It is None if the arguments name no
    plain range of lines: then uses with equal `arguments` concern the same part."""

    how: str
    path: str
    span: tuple[int, int] | None = (0, END)
    arguments: Hashable = None


class Exchange(Struct, frozen=True, kw_only=True):
    """A call and its result: `id` names it in what is found, `by` as the one that supersedes others.

    `tool` is the name in lower case without a server's prefix. `attempt` is equal for calls that attempt the same
    thing, `arguments` for calls that ask for the same thing; None is equal to nothing. `digest` is equal for results
    with the same content, None without a result, and `length` is its length, 0 if unknown. A result is `spoken` if it
    contains a person's words, and `void` if it only refers to an earlier one. One that is not `shown` to the model, but
    evicted, replaces no other.
    """

    id: Any
    by: int = 0
    tool: str = ""
    uses: tuple[FileUse, ...] = ()
    attempt: Hashable = None
    arguments: Hashable = None
    failed: bool = False
    digest: Hashable = None
    length: int = 0
    spoken: bool = False
    void: bool = False
    shown: bool = True


class Superseded(NamedTuple):
    """A superseded result, the call that superseded it, and how: `read` or `write` of the file `path`, `arguments` or
    `content` that are equal, `success`, or `list`. `why` is one of `REASONS`."""

    result: int
    by: int
    how: str
    path: str = ""
    why: str = STALE

    def __str__(self) -> str:
        return f"{_WORDS[self.how]} call {self.by}"


_WORDS = {
    "read": "read again by",
    "write": "written by",
    "arguments": "asked again by",
    "content": "the same as the result of",
    "success": "succeeded in",
    "list": "a newer list is in",
}


def digest(content: Any) -> bytes:
    """Return a key that equal results share."""
    from hashlib import blake2b  # takes 2 ms, and few commands compare results

    return blake2b(msgspec.json.encode(content), digest_size=16).digest()


def superseded(exchanges: Iterable[Exchange]) -> dict[Any, tuple[Superseded, ...]]:
    """Return the reasons for which results are superseded, by the ids of their exchanges. `exchanges` are in the order
    of the log. Each reason is there once, and names the newest call that is one.

    A write makes every earlier result about its file stale; a read, those about lines that it read again.
    """
    found: dict[Any, tuple[Superseded, ...]] = {}
    # Of the calls after the current one, newest first:
    used: dict[str, list[tuple[Exchange, FileUse]]] = {}
    asked: dict[tuple[str, Hashable], list[Exchange]] = {}
    told: dict[tuple[str, str, Hashable], Exchange] = {}
    succeeded: dict[tuple[str, Hashable], Exchange] = {}
    lists: dict[str, Exchange] = {}
    for each in reversed(list(exchanges)):
        if each.digest is None:  # open: the model waits for it
            continue
        listed = TODO_LISTS.get(each.tool)
        if not each.spoken and each.tool not in PERSONS:
            reasons = [
                _stale(each, used),
                _failed(each, succeeded),
                _repeated(each, asked, told),
                _listed(each, lists),
            ]
            if those := tuple(reason for reason in reasons if reason is not None):
                found[each.id] = those
        if each.shown:
            told.setdefault((each.tool, _path(each), each.digest), each)
        if each.failed:
            continue
        succeeded.setdefault((each.tool, each.attempt), each)
        for use in each.uses:
            if each.shown or use.how == "write":
                used.setdefault(use.path, []).append((each, use))
        if each.shown and not each.void:
            asked.setdefault((each.tool, each.arguments), []).append(each)
        if group := listed or TODO_CHANGES.get(each.tool):
            lists.setdefault(group, each)
    return found


def _stale(each: Exchange, used: Mapping[str, Sequence[tuple[Exchange, FileUse]]]) -> Superseded | None:
    if each.failed or each.void or len(each.uses) != 1:
        return None
    (use,) = each.uses
    by = next(((newer, its) for newer, its in used.get(use.path, ()) if _replaces(newer, its, each, use)), None)
    return None if by is None else Superseded(_number(each), by[0].by, by[1].how, use.path)


def _failed(each: Exchange, succeeded: Mapping[tuple[str, Hashable], Exchange]) -> Superseded | None:
    by = succeeded.get((each.tool, each.attempt)) if each.failed and each.attempt is not None else None
    return None if by is None else Superseded(_number(each), by.by, "success", _path(each), FAILED)


def _repeated(
    each: Exchange,
    asked: Mapping[tuple[str, Hashable], Sequence[Exchange]],
    told: Mapping[tuple[str, str, Hashable], Exchange],
) -> Superseded | None:
    if (by := told.get((each.tool, _path(each), each.digest))) is not None:
        return Superseded(_number(each), by.by, "content", _path(each), REPEATED)
    if each.arguments is None or each.void or each.failed or each.tool in _GOES_ON:
        return None
    again = asked.get((each.tool, each.arguments), ())
    by = next((newer for newer in again if each.tool in RUNS or not _is_note(newer, each)), None)
    return None if by is None else Superseded(_number(each), by.by, "arguments", _path(each), REPEATED)


def _listed(each: Exchange, lists: Mapping[str, Exchange]) -> Superseded | None:
    group = TODO_LISTS.get(each.tool)
    by = lists.get(group) if group is not None and not each.failed else None
    return None if by is None else Superseded(_number(each), by.by, "list", "", TODOS)


def _number(each: Exchange) -> int:
    return each.id if isinstance(each.id, int) else 0


def _path(each: Exchange) -> str:
    return each.uses[0].path if len(each.uses) == 1 else ""


def _is_note(newer: Exchange, older: Exchange) -> bool:
    """Return True if a result may only refer to an older one: some tools answer a second time with a note that nothing
    has changed since the first."""
    return newer.void or 2 * newer.length < older.length


def _replaces(newer: Exchange, its: FileUse, older: Exchange, use: FileUse) -> bool:
    if its.how == "write":
        return True
    if _is_note(newer, older):
        return False
    if its.span is None or use.span is None:
        return its.span == use.span and its.arguments == use.arguments
    return its.span[0] <= use.span[0] and use.span[1] <= its.span[1]


def stale(answered: Iterable[tuple[Event, Event]]) -> dict[int, Superseded]:
    """Return the stale results among pairs of a call and its result in the order of the log, by their ids."""
    found = superseded(exchange(call, result) for call, result in answered)
    return {id: each for id, reasons in reversed(found.items()) for each in reasons if each.why == STALE}


def exchange(call: Event, result: Event, *, shown: bool = True) -> Exchange:
    """Return a call and its result, with the id of the result."""
    try:
        arguments = msgspec.json.decode(call.content, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        arguments = None
    about, name = result.data or {}, str((call.data or {}).get("name", ""))
    tool, uses = tool_and_uses(name, arguments or {})
    text = result.content
    failed = about.get("is_error") is True or (tool in RUNS and _exited(text))
    asked = None if arguments is None else asked_for(arguments)
    return Exchange(
        id=result.id,
        by=call.id,
        tool=tool,
        uses=uses,
        attempt=uses[0].path if len(uses) == 1 and tool not in RUNS else asked,
        arguments=asked,
        failed=failed,
        digest=digest([text, about.get("blocks")]),
        length=len(text),
        spoken=failed and text.startswith(REJECTED),
        void=is_void(text),
        shown=shown,
    )


def is_void(text: str) -> bool:
    """Return True for a result that only refers to an earlier one."""
    return UNCHANGED in text[: len(UNCHANGED) + 100]


def asked_for(arguments: Mapping[str, Any]) -> Hashable:
    """Return a key that calls of one tool share if they ask for the same thing."""
    return digest(sorted((key, value) for key, value in arguments.items() if key not in _REMARKS))


def _exited(text: str) -> bool:
    """Return True if the result of a command says that the command failed."""
    ends = (text,) if len(text) <= 2 * _ENDS else (text[:_ENDS], text[-_ENDS:])
    return any(re.search(_EXIT, end) for end in ends)


def tool_and_uses(name: str, arguments: dict[str, Any]) -> tuple[str, tuple[FileUse, ...]]:
    """Return the tool of a call, and the files that the call reads or writes."""
    tool = _last_name(name)
    if tool in ("str_replace_based_edit_tool", "str_replace_editor"):
        tool = str(arguments.get("command", ""))
    return tool, tuple(_uses(tool, arguments))


@lru_cache(maxsize=256)
def _last_name(name: str) -> str:
    """Return the name of a tool in lower case without a server's prefix."""
    return re.split(r"__|[./:]", name.lower())[-1]


def _uses(tool: str, arguments: dict[str, Any]) -> Iterator[FileUse]:
    how = "read" if tool in READS else "write" if tool in WRITES else None
    if tool == "apply_patch":
        for text in arguments.values():
            yield from _patched(text) if isinstance(text, str) else ()
    elif how is not None:
        path = next((arguments[key] for key in _PATHS if isinstance(arguments.get(key), str)), None)
        if path:
            span = _span(arguments) if how == "read" else (0, END)
            yield FileUse(how, _normal(path), span, asked_for(arguments) if span is None else None)
    elif tool in RUNS:
        yield from _used_by_command(arguments)


def _patched(text: str) -> Iterator[FileUse]:
    return (FileUse("write", _normal(path)) for path in re.findall(_PATCHED, text))


def _used_by_command(arguments: Mapping[str, Any]) -> Iterator[FileUse]:
    """Yield the files that a command patches, or the one that it only shows."""
    line = next((arguments[key] for key in _COMMANDS if key in arguments), None)
    words = [line] if isinstance(line, str) else line if isinstance(line, list) else []
    words = [each for each in words if isinstance(each, str)]
    if any("*** Begin Patch" in word for word in words):
        for word in words:
            yield from _patched(word)
        return
    if len(words) == 3 and words[1] in ("-c", "-lc"):  # bash -lc 'cat a.py'
        words = words[2:]
    line = " ".join(words).strip()
    shown = re.fullmatch(_SHOWS_FILE, line) if line.startswith(_SHOWS) else None
    if shown is None:
        return
    folder = next((arguments[key] for key in _FOLDERS if isinstance(arguments.get(key), str)), "")
    first, last = int(shown["first"] or 0), int(shown["last"] or shown["head"] or END)
    yield FileUse(
        "read", _normal(posixpath.join(folder, shown["path"].strip("'\""))), (first if first > 1 else 0, last)
    )


def _normal(path: str) -> str:
    return posixpath.normpath(path.strip().replace("\\", "/"))


def _span(arguments: dict[str, Any]) -> tuple[int, int] | None:
    known = {key: arguments[key] for key in _SPANS if arguments.get(key) is not None}
    if arguments.keys() - {*_PATHS, *_SPANS, "command", "encoding", "description"}:
        return None
    match known:
        case {"view_range": [int() as first, int() as last]}:
            return first, last if last > 0 else END
        case {"view_range": _}:
            return None
    numbers = {key: value for key, value in known.items() if isinstance(value, int) and not isinstance(value, bool)}
    if numbers.keys() != known.keys():
        return None
    first = numbers.get("offset", numbers.get("start_line", 0))
    first = 0 if first == 1 else first  # tools count lines from 0 or from 1; both mean the first
    last = numbers.get("end_line", first + numbers["limit"] if "limit" in numbers else END)
    return first, last
