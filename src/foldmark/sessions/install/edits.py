"""Add Foldmark's entries to Claude Code's files, and remove them again [SPEC 8; S4 components 2, 3, 5].

A `FileKind` edits the text of one file. The file may belong to somebody else, so all other text keeps its characters.
"""

import json
import re
import shlex
from importlib.resources import files
from pathlib import PurePath
from typing import Any, NamedTuple

from foldmark.sessions.install.json_text import NotMergeableError, add, blank, check, put, raw, remove

PLAIN = "foldmark"
"""The bare name of the program, which is found on the PATH: for files that go into version control."""

SKILLS = ("trim", "rollover")
COMMAND = "fm"
"""The command for a session that runs under `foldmark live`. It is not a skill: Claude Code puts a skill's folder
before its text, and the gateway answers only a prompt that is a command and nothing else."""


EVENTS = {
    "PostToolUse": 10,
    "UserPromptSubmit": 10,
    "SessionStart": 10,
    "PreCompact": 120,
    "Stop": 60,
    "SessionEnd": 60,
}
"""Event -> timeout of the hook in seconds. The long ones copy a session into the archive."""

BEGIN, END = "<!-- foldmark:begin -->", "<!-- foldmark:end -->"
"""The marks around the paragraph in a CLAUDE.md. Claude Code hides such comments from the model."""

_BLOCK = re.compile(rf"{BEGIN}.*?{END}", re.DOTALL)
_BLOCK_WITH_GAP = re.compile(rf"(?:\A|(?<=\n)\r?\n|){BEGIN}.*?{END}(?:\r?\n)?", re.DOTALL)
_SERVER, _SERVERS = "foldmark", "mcpServers"


class Edited(NamedTuple):
    """The new text of a file (None: no file), and notes for the person.

    `kept` is True if another entry is in the place of Foldmark's and is kept. `replaced` is the JSON of the status line
    that Foldmark's replaced.
    """

    text: str | None
    notes: tuple[str, ...] = ()
    kept: bool = False
    replaced: str | None = None


class _JsonFile:
    """A JSON file. A missing or empty one counts as an empty object."""

    def put_in(self, text: str | None, ours: bool) -> Edited:
        if text is not None and not blank(text):
            return self._insert(text, check(text))
        edited = self._insert("{}", {})
        return edited._replace(text=f"{edited.text}\n")

    def take_out(self, text: str, replaced: str | None) -> Edited:
        return Edited(text if blank(text) else self._extract(text, check(text), replaced))

    def _insert(self, text: str, value: dict[str, Any]) -> Edited:
        raise NotImplementedError

    def _extract(self, text: str, value: dict[str, Any], replaced: str | None) -> str:
        raise NotImplementedError


class SettingsFile(_JsonFile):
    """Foldmark's hooks and status line in Claude Code's `settings.json`.

    `program` is the path of the `foldmark` script. `shadowed` is a file with a person's own status line, which a status
    line in this file would hide. With `replace`, Foldmark's status line replaces another one.
    """

    def __init__(self, program: str, shadowed: str | None = None, replace: bool = False) -> None:
        # Exit code 2 would block the person's prompt, and so would an older Foldmark without `hook`.
        self._hook = f"{shell(program)} hook || true"
        self._status_line = f"{shell(program)} statusline"
        self._shadowed, self._replace = shadowed, replace

    def _insert(self, text: str, value: dict[str, Any]) -> Edited:
        """Add the hooks after existing ones. An older hook of Foldmark gets the current command."""
        hooks = _container(value, "hooks", dict, "an object", "hooks")
        for event, seconds in EVENTS.items():
            groups = _container(hooks, event, list, "an array", f"hooks.{event}")
            if found := _own_hooks(event, groups):
                for path in found:
                    text = _put_command(text, [*path, "command"], self._hook)
                continue
            group = {"hooks": [{"type": "command", "command": self._hook, "timeout": seconds}]}
            if "hooks" not in value:
                text, value = add(text, [], {event: [group]}, "hooks"), {**value, "hooks": {}}
            elif event not in hooks:
                text = add(text, ["hooks"], [group], event)
            else:
                text = add(text, ["hooks", event], group)
        notes = []
        if value.get("disableAllHooks") is True:
            notes.append("`disableAllHooks` is set there: Claude Code runs no hooks, so there will be no reminders")
        edited = self._insert_status_line(text, value)
        return edited._replace(notes=(*notes, *edited.notes))

    def _insert_status_line(self, text: str, value: dict[str, Any]) -> Edited:
        line = {"type": "command", "command": self._status_line}
        if _is_own_status_line(value.get("statusLine")):
            return Edited(_put_command(text, ["statusLine", "command"], self._status_line))
        if "statusLine" in value:
            if not self._replace:
                return Edited(text, (self._combine("has a status line of its own, which is kept"),))
            new = put(text, ["statusLine"], json.dumps(line, ensure_ascii=False))
            return Edited(new, replaced=raw(text, ["statusLine"]))
        if self._shadowed and not self._replace:
            return Edited(text, (self._combine(f"got no status line: it would hide yours in {self._shadowed}"),))
        return Edited(add(text, [], line, "statusLine"))

    def _combine(self, note: str) -> str:
        return (
            f"{note}; to see the context's share as well, let its script pass its standard input on to "
            f"`{self._status_line}` too, or replace it with --replace-statusline"
        )

    def _extract(self, text: str, value: dict[str, Any], replaced: str | None) -> str:
        """Remove the hooks, and each group, event and `hooks` that becomes empty. Restore the replaced status line."""
        hooks = value.get("hooks")
        for event, groups in hooks.items() if isinstance(hooks, dict) else ():
            for path in reversed(_own_hooks(event, groups)):
                text = remove(text, path)
                for container in (path[:3], path[:2], path[:1]):
                    if _is_empty(text, [*container, "hooks"] if len(container) == 3 else container):
                        text = remove(text, container)
        if not _is_own_status_line(value.get("statusLine")):
            return text
        if replaced is not None and _is_json(replaced):
            return put(text, ["statusLine"], replaced)
        return remove(text, ["statusLine"])


class McpFile(_JsonFile):
    """Foldmark's MCP server in a project's `.mcp.json`, or in the user's file, which has `mcpServers` and much else."""

    def __init__(self, program: str) -> None:
        self._program = program

    def _insert(self, text: str, value: dict[str, Any]) -> Edited:
        """Add the server `foldmark`. Another program's server with this name stays."""
        servers = _container(value, _SERVERS, dict, "an object", _SERVERS)
        server = {"type": "stdio", "command": self._program, "args": ["mcp"]}
        if _SERVER not in servers:
            if _SERVERS in value:
                return Edited(add(text, [_SERVERS], server, _SERVER))
            return Edited(add(text, [], {_SERVER: server}, _SERVERS))
        if not _is_own_server(servers[_SERVER]):
            return Edited(text, ("has another MCP server of the name `foldmark`, which is kept",), kept=True)
        return Edited(_put_command(text, [_SERVERS, _SERVER, "command"], self._program))

    def _extract(self, text: str, value: dict[str, Any], replaced: str | None) -> str:
        """Remove the server, and `mcpServers` if it becomes empty."""
        servers = value.get(_SERVERS)
        if isinstance(servers, dict) and _is_own_server(servers.get(_SERVER)):
            text = remove(text, [_SERVERS, _SERVER])
            if _is_empty(text, [_SERVERS]):
                text = remove(text, [_SERVERS])
        return text


class PromptFile:
    """A paragraph about the context [S4 component 5] at the end of a `CLAUDE.md`, between two marks.

    `command` runs Foldmark in a shell.
    """

    def __init__(self, command: str) -> None:
        self._text = template("context").strip().replace("{foldmark}", command)

    def put_in(self, text: str | None, ours: bool) -> Edited:
        """Append the paragraph, or replace it in place. Raises NotMergeableError if a mark is missing."""
        newline = "\r\n" if text and "\r\n" in text else "\n"
        block = f"{BEGIN}\n{self._text}\n{END}".replace("\n", newline)
        if not text:
            return Edited(block + newline)
        if _has_block(text):
            return Edited(_BLOCK.sub(lambda _: block, text))
        gap = newline if text.endswith("\n") else newline * 2
        return Edited(f"{text}{gap}{block}{newline}")

    def take_out(self, text: str, replaced: str | None) -> Edited:
        """Remove the paragraph with the empty line before it."""
        return Edited(_BLOCK_WITH_GAP.sub("", text) if _has_block(text) else text)


class SkillFile:
    """A skill: a `SKILL.md` that belongs entirely to Foldmark.

    `command` runs Foldmark in a shell. `other` is the file of a person's own command of this name, which the skill
    would hide.
    """

    def __init__(self, name: str, command: str, other: str | None = None) -> None:
        self._template = template(name)
        self._text = self._template.replace("{foldmark}", command)
        self._name, self._other = name, other

    def put_in(self, text: str | None, ours: bool) -> Edited:
        """Write the skill. Another skill with this name, or a changed version of Foldmark's, stays."""
        if text is None and self._other:
            return Edited(None, (f"it would hide your own /{self._name} in {self._other}",), kept=True)
        if text is None or ours or self._is_own(text):
            return Edited(self._text)
        return Edited(text, (f"is not Foldmark's version and is kept; /{self._name} does what it says",), kept=True)

    def take_out(self, text: str, replaced: str | None) -> Edited:
        """Delete the file unless it was changed."""
        if self._is_own(text):
            return Edited(None)
        return Edited(text, ("is not Foldmark's version and is kept",), kept=True)

    def _is_own(self, text: str) -> bool:
        """Return True if this is Foldmark's text, whatever program path it contains."""
        return re.fullmatch(re.escape(self._template).replace(r"\{foldmark\}", "[^\n]+"), text) is not None


FileKind = SettingsFile | McpFile | PromptFile | SkillFile
"""Edits one kind of file. `put_in` returns the text with Foldmark's entries; `ours`: the file is unchanged since an
installation. `take_out` returns the text without them; `replaced` comes from `put_in`. Both raise NotMergeableError."""


def template(name: str) -> str:
    """Return a text by its name: `trim`, `rollover`, `fm` or `context`. `{foldmark}` in it is a placeholder for the
    program."""
    return files(__package__).joinpath("texts", f"{name}.md").read_bytes().decode()


def shell(program: str) -> str:
    """Quote a program path for the shell, with slashes: a shell reads a backslash as an escape."""
    return shlex.quote(PurePath(program).as_posix() if "\\" in program else program)


def runs(command: object, what: str) -> bool:
    """Return True if a shell command runs Foldmark's `what` ("hook", "statusline"), wherever Foldmark is installed."""
    if not isinstance(command, str):
        return False
    for posix in (True, False):  # the second mode keeps the backslashes of a path
        try:
            words = shlex.split(command, posix=posix)
        except ValueError:  # an unclosed quote
            return False
        if len(words) > 1 and is_foldmark(words[0]) and words[1] == what:
            return True
    return False


def is_foldmark(program: object) -> bool:
    """Return True for the path of a `foldmark` script."""
    if not isinstance(program, str):
        return False
    name = program.strip("'\"").replace("\\", "/").rpartition("/")[2]
    return name.lower() in ("foldmark", "foldmark.exe")


def _container(parent: dict[str, Any], key: str, type: type, expected: str, label: str) -> Any:
    """Return the value of `key`, or an empty one. Raises NotMergeableError if it has another type."""
    found = parent.get(key, type())
    if not isinstance(found, type):
        raise NotMergeableError(f"`{label}` in it is not {expected}")
    return found


def _own_hooks(event: str, groups: Any) -> list[list[str | int]]:
    """Return the paths of Foldmark's hooks of one event, in order."""
    return [
        ["hooks", event, at, "hooks", number]
        for at, group in enumerate(groups if isinstance(groups, list) else ())
        if isinstance(group, dict) and isinstance(group.get("hooks"), list)
        for number, hook in enumerate(group["hooks"])
        if isinstance(hook, dict) and runs(hook.get("command"), "hook")
    ]


def _put_command(text: str, path: list[str | int], command: str) -> str:
    is_same = json.loads(raw(text, path)) == command
    return text if is_same else put(text, path, json.dumps(command, ensure_ascii=False))


def _is_empty(text: str, path: list[str | int]) -> bool:
    return not raw(text, path)[1:-1].strip(" \t\r\n")


def _is_own_status_line(value: Any) -> bool:
    return isinstance(value, dict) and runs(value.get("command"), "statusline")


def _is_own_server(value: Any) -> bool:
    return isinstance(value, dict) and is_foldmark(value.get("command")) and value.get("args") == ["mcp"]


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _has_block(text: str) -> bool:
    """Return True if the text has Foldmark's paragraph. Raises NotMergeableError if the marks are not one pair."""
    marks = re.findall(f"{BEGIN}|{END}", text)
    if marks not in ([], [BEGIN, END]):
        raise NotMergeableError(f"its marks {BEGIN} and {END} are not one pair; put that right, or use --no-prompt")
    return bool(marks)
