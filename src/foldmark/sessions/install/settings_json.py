"""Our hooks and status line in Claude Code's `settings.json`."""

import json
from typing import Any

from foldmark.sessions.install.json_text import NotMergeableError, add, blank, check, put, raw, remove
from foldmark.sessions.install.kinds import Edited, runs, shell

EVENTS = {
    "PostToolUse": 10,
    "UserPromptSubmit": 10,
    "SessionStart": 10,
    "PreCompact": 120,
    "Stop": 60,
    "SessionEnd": 60,
}
"""Event -> after how many seconds Claude Code gives up on our hook; the long ones copy a session into the archive."""

NEW = "{}"


def hook_command(program: str) -> str:
    """What Claude Code runs at each event. Exit code 2 would block the person's prompt, and so would an older Foldmark
    that has no `hook`: whatever happens, this ends with 0."""
    return f"{shell(program)} hook || true"


def statusline_command(program: str) -> str:
    """What Claude Code runs for its status line; if it fails, there is none."""
    return f"{shell(program)} statusline"


class SettingsFile:
    """`program`: the path of the `foldmark` script. `shadowed`: the file with a status line of the person's own, which
    ours in this file would hide. `replace`: ours takes the place of another status line."""

    def __init__(self, program: str, shadowed: str | None = None, replace: bool = False) -> None:
        self._hook, self._statusline = hook_command(program), statusline_command(program)
        self._shadowed, self._replace = shadowed, replace

    def put_in(self, text: str | None, ours: bool) -> Edited:
        """Our hooks behind those that are there; a group that holds ours already gets today's command."""
        new = text is None or blank(text)
        text = NEW if text is None or new else text
        settings = check(text)
        hooks = _container(settings, "hooks", dict, "an object", "hooks")
        for event, seconds in EVENTS.items():
            groups = _container(hooks, event, list, "an array", f"hooks.{event}")
            if found := _ours(event, groups):
                for path in found:
                    text = _put_command(text, [*path, "command"], self._hook)
                continue
            group = {"hooks": [{"type": "command", "command": self._hook, "timeout": seconds}]}
            if "hooks" not in settings:
                text, settings = add(text, [], {event: [group]}, "hooks"), {**settings, "hooks": {}}
            elif event not in hooks:
                text = add(text, ["hooks"], [group], event)
            else:
                text = add(text, ["hooks", event], group)
        notes = []
        if settings.get("disableAllHooks") is True:
            notes.append("`disableAllHooks` is set there: Claude Code runs no hooks, so there will be no reminders")
        text, note, replaced = self._put_status_line(text, settings)
        if note:
            notes.append(note)
        return Edited(f"{text}\n" if new else text, tuple(notes), replaced=replaced)

    def _put_status_line(self, text: str, settings: dict[str, Any]) -> tuple[str, str | None, str | None]:
        """The text, a note, and the status line that was replaced."""
        line = {"type": "command", "command": self._statusline}
        there = settings.get("statusLine")
        if _is_status_line(there):
            return _put_command(text, ["statusLine", "command"], self._statusline), None, None
        if "statusLine" in settings:
            if self._replace:
                return put(text, ["statusLine"], json.dumps(line, ensure_ascii=False)), None, raw(text, ["statusLine"])
            return text, _combine("has a status line of its own, which is kept", self._statusline), None
        if self._shadowed and not self._replace:
            return (
                text,
                _combine(f"got no status line: it would hide yours in {self._shadowed}", self._statusline),
                None,
            )
        return add(text, [], line, "statusLine"), None, None

    def take_out(self, text: str, replaced: str | None) -> Edited:
        """Without our hooks, and without groups, events and `hooks` that are empty then."""
        if blank(text):
            return Edited(text)
        settings = check(text)
        hooks = settings.get("hooks")
        if isinstance(hooks, dict):
            for event, groups in hooks.items():
                for path in reversed(_ours(event, groups)):
                    text = remove(text, path)
                    for container in (path[:3], path[:2], path[:1]):
                        if _empty(text, [*container, "hooks"] if len(container) == 3 else container):
                            text = remove(text, container)
        if _is_status_line(settings.get("statusLine")):
            back = replaced is not None and _is_json(replaced)
            text = put(text, ["statusLine"], replaced or "") if back else remove(text, ["statusLine"])
        return Edited(text)


def _combine(what: str, command: str) -> str:
    return (
        f"{what}; to see the context's share as well, let its script pass its standard input on to "
        f"`{command}` too, or replace it with --replace-statusline"
    )


def _container(parent: Any, key: str, type: type, wanted: str, label: str) -> Any:
    """What is under `key`, or an empty one. Raises NotMergeableError for another type."""
    found = parent.get(key, type())
    if not isinstance(found, type):
        raise NotMergeableError(f"`{label}` in it is not {wanted}")
    return found


def _ours(event: str, groups: Any) -> list[list[str | int]]:
    """The paths of our hooks of one event, in order."""
    if not isinstance(groups, list):
        return []
    return [
        ["hooks", event, at, "hooks", number]
        for at, group in enumerate(groups)
        if isinstance(group, dict) and isinstance(group.get("hooks"), list)
        for number, hook in enumerate(group["hooks"])
        if isinstance(hook, dict) and runs(hook.get("command"), "hook")
    ]


def _put_command(text: str, path: list[str | int], command: str) -> str:
    same = json.loads(raw(text, path)) == command
    return text if same else put(text, path, json.dumps(command, ensure_ascii=False))


def _empty(text: str, path: list[str | int]) -> bool:
    return raw(text, path)[1:-1].strip(" \t\r\n") == ""


def _is_status_line(value: Any) -> bool:
    return isinstance(value, dict) and runs(value.get("command"), "statusline")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
