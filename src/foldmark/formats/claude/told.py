"""Read what Claude Code told its model by itself: attachments, and the output of local commands [SPEC 8].

Newer versions store the exact texts of an attachment (`rendered`). For older ones, the texts are made as Claude Code
2.1.197 makes them, from the templates in `told.toml`. An attachment whose texts depend on anything beyond
its record (a plan's full instructions, the age of a memory) has none here, and so has an unknown one.

To models that take system messages between the others, Claude Code sends most of them in the role `system`, as its own
instructions, which an import does not read (`is_instruction`).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec

from foldmark.core.patterns import pattern
from foldmark.wires.lenient_json import filled_text, member
from foldmark.wires.parts import Data
from foldmark.wires.repeated import packed, unpacked

REMINDER, _END = "<system-reminder>", "\n</system-reminder>"

INJECTED = pattern(
    r"\s*<(system-reminder|local-command-(caveat|stdout|stderr)|command-(name|message|args)|bash-(input|stdout|stderr))>"
)
"""Matches the beginning of a user's text that Claude Code itself wrote."""


def is_injected(text: str) -> bool:
    """Return True for a user's text that Claude Code itself wrote."""
    return INJECTED.match(text) is not None


_ROLE = "renderedRole"
_KEPT = ("attachment", "rendered", _ROLE)
_SHORT = 24
"""The number of characters from which a part of the text is kept as its place: its first character and its length."""

LOCAL_COMMAND = "local_command"
"""The subtype of a system record with a command that Claude Code carried out by itself, or its output."""


def told(record: Data) -> list[str] | None:
    """Return the texts that an attachment or a local command told the model; None if they are not known."""
    if record.get("type") == "system":
        text = filled_text(record.get("content")) if record.get("subtype") == LOCAL_COMMAND else None
        return [text] if text and text.strip() and record.get("isDisplayOnly") is not True else None
    attached = record.get("attachment")
    if not isinstance(attached, dict):
        return None
    if "rendered" in record:
        return _rendered(record["rendered"])
    try:
        return [f"{REMINDER}\n{text}{_END}" for text in _texts(attached)]
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


_NO_SYSTEM = pattern(r"claude-(3-|opus-4-[0-7]\b|(opus|sonnet|haiku)-4-\d{8}|sonnet-4-|haiku-4-)")
"""Models that take no system messages between the others."""


def is_instruction(about: Any, model: str | None) -> bool:
    """Return True if Claude Code sends the text of an attachment to this model in the role `system`; `about` is what
    `kept` returned. A `model` of None is not known, and takes none."""
    takes = model is not None and model.startswith("claude-") and not _NO_SYSTEM.match(model)
    return takes and isinstance(about, dict) and about.get(_ROLE) != "user"


def kept(record: Data, texts: Sequence[str]) -> Data:
    """Return an attachment with one text, without the parts of that text, for an export; of any other only its role."""
    role = {_ROLE: record[_ROLE]} if record.get(_ROLE) in ("user", "system") else {}
    if len(texts) != 1:
        return role

    def place_of(value: Any) -> list[int] | None:
        at = texts[0].find(value) if isinstance(value, str) and len(value) >= _SHORT else -1
        return None if at < 0 else [at, len(value)]

    return {name: packed(record[name], place_of) for name in _KEPT if name in record}


def told_again(about: Any, text: str) -> Data | None:
    """Return the members of an attachment's record that tells the model this text; None if there is none. `about` is
    what `kept` returned."""
    if not isinstance(about, dict):
        return None
    try:
        found = {name: unpacked(value, partial(_part, text)) for name, value in about.items() if name in _KEPT}
    except ValueError:
        found = {}
    if told(found) == [text]:
        return found
    inside = text.removeprefix(f"{REMINDER}\n").removesuffix(_END)
    if len(inside) != len(text) - len(REMINDER) - 1 - len(_END):
        return None
    attached = {"type": "critical_system_reminder", "content": inside}
    return {"attachment": attached, "rendered": [{"content": text}], _ROLE: "user"}


def _part(text: str, place: Any) -> str:
    match place:
        case [int() as begin, int() as length] if 0 <= begin <= begin + length <= len(text):
            return text[begin : begin + length]
    raise ValueError("the text of an attachment has changed")


def _rendered(messages: Any) -> list[str] | None:
    found: list[str] = []
    for message in messages if isinstance(messages, list) else [None]:
        content = member(message, "content")
        for block in content if isinstance(content, list) else [{"type": "text", "text": content}]:
            text = filled_text(member(block, "text")) if member(block, "type") == "text" else None
            if text is None:
                return None
            found.append(text)
    return found


# The texts of attachments that have none


def _texts(attached: Data) -> Iterator[str]:
    """Yield the texts of an attachment. Raises KeyError, TypeError, ValueError or AttributeError if they are not known,
    or if the attachment is not as Claude Code writes it."""
    template, is_unknown = _templates()[attached["type"]], _UNKNOWN.get(attached["type"])
    if is_unknown is not None and is_unknown(attached):
        raise ValueError
    return _made(template, attached)


@cache
def _templates() -> dict[str, Any]:
    from tomllib import loads  # few sessions need it

    return loads(Path(__file__).with_name("told.toml").read_text("utf-8"))


_UNKNOWN: dict[str, Callable[[Data], Any]] = {
    "directory": lambda it: not re.fullmatch(r"[\w@%+=:,./-]+", it["path"], re.ASCII),  # it is quoted for a shell
    "file": lambda it: it["content"]["type"] != "text",
    "output_style": lambda it: it["style"] not in ("Explanatory", "Learning"),
    "plan_mode": lambda it: it.get("reminderType") != "sparse" or it.get("isSubAgent"),
    "memory_update": lambda it: it.get("source") != "dream",
    "deferred_tools_delta": lambda it: (
        it.get("needsAuthMcpServers")
        or it.get("pendingMcpServers")
        or any(len(it.get(names) or ()) > 30 for names in ("removedNames", "readdedNames"))
    ),
}
"""True for an attachment whose texts depend on more than its record, by its type."""


def _made(template: Any, attached: Data) -> Iterator[str]:
    """Yield the texts that a template in `told.toml` has for an attachment."""
    if isinstance(template, str):
        yield _filled(template, attached)
    elif isinstance(template, dict):
        for entry in _entries(attached, template["each"]):
            yield from _made(template["texts"], entry)
    else:
        for each in template:
            if isinstance(each, list):
                paragraphs = filter(None, (_filled(paragraph, attached) for paragraph in each))
                yield from filter(None, ["\n\n".join(paragraphs)])
            else:
                yield from _made(each, attached)


_PLACE = pattern(r"\{([?!*<])([^|}]+)(?:\|([^}]*))?\}(.*?)\{/\1\2\}|\{([\w/.#]+)(?::(\w+))?\}", re.DOTALL)
"""Matches a part of a template with a condition, a list or a limit, and the place of a member."""


def _filled(template: str, attached: Data) -> str:
    def filled(place: re.Match[str]) -> str:
        sign, about, between, inner, name, form = place.groups()
        if name:
            return _FORMS[form](_named(attached, name))
        if sign == "*":
            return (between or "").join(_filled(inner, entry) for entry in _entries(attached, about))
        name, _, wanted = about.partition("=")
        value = _named(attached, name)
        holds = str(value) in wanted.split(",") if wanted else bool(value)
        text = _filled(inner, attached) if sign == "<" or holds == (sign == "?") else ""
        if sign == "<" and len(text) > int(about):
            raise ValueError
        return text

    return _PLACE.sub(filled, template)


def _named(attached: Data, name: str) -> Any:
    return member(attached, *name.split("/"))


def _entries(attached: Data, name: str) -> list[Data]:
    """Return the entries of a list as objects with their numbers. Raises TypeError for any other value."""
    entries = _named(attached, name) or []
    if not isinstance(entries, list):
        raise TypeError
    return [{**(each if isinstance(each, dict) else {".": each}), "#": at} for at, each in enumerate(entries, 1)]


def _plain(value: Any, *kinds: type) -> str:
    """Return a text, or a number as JSON. Raises TypeError for a value of another type."""
    if type(value) not in kinds:
        raise TypeError
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _bytes(number: int) -> str:
    """Return a size as Claude Code writes it, such as 1.2MB."""
    if number < 1024:
        return f"{number} bytes"
    value, units = number / 1024, iter(("KB", "MB", "GB"))
    while (unit := next(units)) != "GB" and value >= 1024:
        value /= 1024
    return f"{value:.1f}".removesuffix(".0") + unit


def _thousands(number: int) -> str:
    if number >= 1_000_000:
        raise ValueError
    return str(number) if number < 1000 else f"{number / 1000:.1f}k"


def _numbered(file: Data) -> str:
    """Return the content of a file as the client's tool shows it."""
    if content := _plain(file["content"], str):
        lines = enumerate(re.split(r"\r?\n", content), file.get("startLine", 1))
        return "\n".join(f"{number}\t{line}" for number, line in lines)
    if file["totalLines"] != 0:
        raise ValueError
    return f"{REMINDER}Warning: the file exists but the contents are empty.</system-reminder>"


_FORMS: dict[str | None, Callable[[Any], str]] = {
    None: lambda value: _plain(value, str),
    "number": lambda value: _plain(value, int, float),
    "json": _json,
    "short": lambda text: text if len(text) <= 2000 else f"{text[:2000]}\n... (truncated)",
    "bytes": _bytes,
    "thousands": _thousands,
    "numbered": _numbered,
    "next": lambda number: str(number + 1),
    "name": lambda uri: uri.rpartition("/")[2],
    "sign": {"Error": "✘", "Warning": "⚠", "Info": "ℹ", "Hint": "★"}.__getitem__,
    "tools": lambda names: f"{len(names)} deferred {'tool is' if len(names) == 1 else 'tools are'}",
}
"""The forms in which a template shows a member."""
