"""The settings of Claude Code, as far as a gateway has to know them: the variables that they set, and when Claude Code
compacts a session by itself [SPEC 5.7].

Source: code.claude.com/docs/en/settings; tried with 2.1.332.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

GIVEN = "FOLDMARK_LIVE_SETTINGS"
"""The variable that passes the settings of a command line to the gateway."""

MANAGED = Path(
    {"darwin": "/Library/Application Support/ClaudeCode", "win32": "C:/Program Files/ClaudeCode"}.get(
        sys.platform, "/etc/claude-code"
    )
)
"""The folder of an administrator's settings, which nothing overrides."""

LEAST_IDLE = 100_000
"""The fewest tokens from which Claude Code 2.1.332 can be told to compact an idle session."""

_IDLE = 200_000
_NO_COMPACTION = ("DISABLE_COMPACT", "DISABLE_AUTO_COMPACT")
"""Variables that keep Claude Code from compacting by itself."""

_OPTION = "--settings"


class _Settings(msgspec.Struct):
    """The members that are read. Those that are not set are None."""

    env: dict[str, str | int | float | bool] = {}
    idle_compaction: bool | None = msgspec.field(name="idleCompaction", default=None)
    auto_compact: bool | None = msgspec.field(name="autoCompactEnabled", default=None)


def with_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment as Claude Code uses it."""
    found = dict(environment)
    for settings in _settings(environment):
        found |= {name: str(value) for name, value in settings.env.items()}
    return found


def idle_tokens(environment: Mapping[str, str]) -> int | None:
    """Return the tokens from which a session is compacted while it is idle (since 2.1.198 at the earliest); None if the
    settings turn that off."""
    variables = with_variables(environment)
    idle = auto = True
    for settings in _settings(environment):
        idle = idle if settings.idle_compaction is None else settings.idle_compaction
        auto = auto if settings.auto_compact is None else settings.auto_compact
    off = any(variables.get(name, "") not in ("", "0", "false") for name in _NO_COMPACTION)
    if off or not idle or not auto:
        return None
    named = variables.get("CLAUDE_CODE_IDLE_COMPACT_MIN_TOKENS", "")
    return max(LEAST_IDLE, int(named)) if named.isdecimal() else _IDLE


def given(arguments: Sequence[str]) -> tuple[dict[str, Any] | None, list[str]]:
    """Return the settings that a command line gives, as JSON or in a file, and the arguments without them; None and all
    arguments if there are none, or none that can be read: Claude Code then says so itself. It uses the last ones."""
    rest, value, at = list[str](), None, 0
    own = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    while at < len(own):
        name, equals, text = own[at].partition("=")
        if name == _OPTION and (equals or at + 1 < len(own)):
            value = text if equals else own[at + 1]
            at += 1 if equals else 2
        else:
            rest.append(own[at])
            at += 1
    try:
        found = None if value is None else msgspec.json.decode(value if value[:1] == "{" else Path(value).read_bytes())
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        return None, list(arguments)
    return found, rest + list(arguments[len(own) :])


def _settings(environment: Mapping[str, str]) -> Iterator[_Settings]:
    """Yield the settings that can be read, the strongest last."""
    home = Path(environment.get("CLAUDE_CONFIG_DIR") or Path(environment.get("HOME") or Path.home(), ".claude"))
    files = [home / "settings.json", Path(".claude", "settings.json"), Path(".claude", "settings.local.json")]
    managed = [MANAGED / "managed-settings.json", *sorted((MANAGED / "managed-settings.d").glob("[!.]*.json"))]
    for path in (*files, None, *managed):
        try:
            text = environment.get(GIVEN, "").encode() if path is None else path.read_bytes()
            yield msgspec.json.decode(text, type=_Settings)
        except (OSError, msgspec.MsgspecError):
            continue
