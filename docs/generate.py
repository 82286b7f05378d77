"""Generates the parts of the documentation that come from the code: `make docs`. A test checks that they are current.

`commands.md`: the table of the registry, and the schema of the `slash` tool. `settings.md`: its table of keys.
`forgetting.md`: its table of answers. `new-agent.md`: the files of the example. `context.svg`: the picture on the front
page, from a run.
"""

import runpy
from pathlib import Path
from typing import Any

import msgspec

from foldmark.commands import REGISTRY
from foldmark.core.config import KINDS, Config
from foldmark.settings.given import GLOBAL, GLOBAL_KINDS
from foldmark.settings.loading import ALL_KEYS
from foldmark.text.consent import ANSWERS
from foldmark.tools import TOOLS

HERE = Path(__file__).parent


ABOUT = {
    "model": "The model that answers.",
    "system": "The system prompt.",
    "sliding_context_tokens": "The window's budget in tokens; 0 is off.",
    "sliding_context_low_water": (
        "The share of the budget to which `steady` reduces a full window in one step; at 1 it moves with nearly every "
        "turn."
    ),
    "context_size": "Maximum number of turns in a request; 0 sends all.",
    "context_policy": "`steady`: requests only grow between boundaries. `eager`: each is made afresh.",
    "truncate_recent": "Characters kept of the newest tool results of the active turn.",
    "truncate_recent_count": "Number of tool results that count as the newest.",
    "truncate_active": "Characters kept of the active turn's older tool results.",
    "truncate_inactive": "Characters kept of the tool results of all other turns.",
    "truncate_shape": "Where a tool result is cut: `head` keeps its beginning, `head-tail` both ends.",
    "truncation": "Whether tool results are cut at all.",
    "isolation": "Whether tool calls of another dialect are left out.",
    "memos_injected": "Maximum number of memos in a request.",
    "model_commands": "The commands that the model may run.",
    "token_counting": "How tokens are estimated.",
    "thinking": "How much the model thinks before it answers.",
    "cache_ttl": "How long Anthropic keeps a prompt in its cache; `auto` goes by your pauses.",
    "warn_threshold": "Percent of the model's window from which the model is reminded.",
    "recommend_threshold": "Percent from which the model is told to make room soon.",
    "urgent_threshold": "Percent from which the model is told to make room now.",
    "check_interval_seconds": "Minimum number of seconds between two reminders.",
    "tools": "The tools that the model is offered.",
    "tool_approval": "Which tools run without asking the person. Not in a project's file.",
    "turn_steps": "Maximum number of requests in one turn.",
    "window_summary": "Whether the model summarizes the turns that the window has passed.",
    "provider_compaction": "Whether the provider's API itself writes summaries, if it can (Anthropic's).",
    "evict_superseded": (
        "Whether results that a later read or write of the same file made stale are evicted, at boundaries."
    ),
    "provider_editing": "What Anthropic's API itself clears from requests.",
    "trim_threshold_chars": "Characters above which `foldmark trim` cuts a result. Not per agent.",
    "trim_target_tools": "The tools whose results `foldmark trim` cuts. Not per agent.",
    "sync_exclude": "Folders whose sessions `foldmark sync` leaves out. Not in a project's file.",
    "theme": "The theme of the full-screen chat; `auto` fits the terminal. Not in a project's file.",
    "live_sign": "The sign before commands to Foldmark under `foldmark live`. Not in a project's file.",
    "live_evict": "What `foldmark live` evicts without asking; in a file, `evict` in the table `[live]`.",
    "recall_model": "The model with which `foldmark index` makes vectors. Not in a project's file.",
}


def row(key: str) -> tuple[str, str, str]:
    """Return the default of a setting as TOML has it, what it takes, and its meaning."""
    if key in GLOBAL:
        return _toml(GLOBAL[key]), GLOBAL_KINDS[key].takes, ABOUT[key]
    default, takes = getattr(Config(), key), KINDS[key].takes
    return _toml(default), takes, ABOUT[key]


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def commands() -> str:
    """The page of all commands."""
    rows = [
        f"| `{command.synopsis.replace('|', chr(92) + '|')}` | {'you, model' if 'model' in command.who else 'you'} "
        f"| {command.help.rstrip('.')} |"
        for command in REGISTRY.commands.values()
    ]
    options = [
        f"| `/{command.name}` | `{option}` | {what.rstrip('.')} |"
        for command in REGISTRY.commands.values()
        for option, what in command.options
    ]
    slash = TOOLS["slash"].spec
    schema = {"name": slash.name, "description": slash.description, "parameters": slash.parameters}
    return "\n".join(
        [
            "# Commands",
            "",
            "Type these commands in `foldmark chat`, or run one with `foldmark do NAME '...'`; in Python, call",
            "`agent.do('...')`. `NAME` is required, `[NAME]` is optional, `NAME...` takes the rest of the line. Other",
            'arguments with spaces stand in double quotes: `/recall --agent "my talk" tabs`.',
            "A GID is the id of a turn, an ID the id of an event; `/message list` and `/context show` show them.",
            "`make docs` generates this page.",
            "",
            "| command | who | effect |",
            "| --- | --- | --- |",
            *rows,
            "",
            "Options may come before or after the other arguments; in quotes, they are ordinary words. The text after",
            "` -- ` is the reason for an operation, and is recorded with it. With `--preview`, an operation shows its",
            "effect and its cost, and changes nothing. [undo-drop-remove.md](undo-drop-remove.md) has examples.",
            "",
            "| command | option | effect |",
            "| --- | --- | --- |",
            *options,
            "",
            "## The model's `slash` tool",
            "",
            "A model runs its commands through one tool:",
            "",
            "```json",
            msgspec.json.format(msgspec.json.encode(schema), indent=2).decode(),
            "```",
            "",
        ]
    )


def settings() -> str:
    """The page of settings as it is, with its table made anew."""
    rows = []
    for key in ALL_KEYS:
        default, takes, meaning = row(key)
        rows.append(f"| `{key}` | `{default}` | {takes} | {meaning} |")
    head = ["| key | default | takes | meaning |", "| --- | --- | --- | --- |"]
    return _with_table("settings.md", "keys", [*head, *rows])


def forgetting() -> str:
    """Return docs/reference/forgetting.md with its table of answers generated from the examples."""
    rows = [f"| {', '.join(f'`{text}`' for text in row.examples)} | {row.effect} |" for row in ANSWERS]
    return _with_table("reference/forgetting.md", "answers", ["| you say | what happens |", "| --- | --- |", *rows])


def new_agent() -> str:
    """Return docs/development/new-agent.md with the files of the example."""
    name, example = "development/new-agent.md", HERE.parent / "examples" / "coding_agent"
    page = (HERE / name).read_text(encoding="utf-8")
    places = (example / "pyproject.toml").read_text(encoding="utf-8").split("\n\n")
    page = _with("places", ["```toml", "\n\n".join(each for each in places if "entry-points" in each), "```"], page)
    for what in ("live", "sessions"):
        text = (example / "foldmark_lathe" / f"{what}.py").read_text(encoding="utf-8")
        page = _with(what, ["```python", text.rstrip(), "```"], page)
    return page


def _with_table(name: str, what: str, table: list[str]) -> str:
    return _with(what, table, (HERE / name).read_text(encoding="utf-8"))


def _with(what: str, table: list[str], page: str) -> str:
    """Return a page with these lines in the place of that name."""
    begin, end = f"<!-- {what}: made from the code by `make docs` -->\n", f"<!-- /{what} -->"
    before, after = page.split(begin)[0], page.split(end)[1]
    return "\n".join([before + begin.rstrip(), "", *table, "", end + after])


def picture() -> str:
    """The picture on the front page, from a run."""
    text: str = runpy.run_path(str(HERE / "picture.py"))["picture"]()
    return text


PAGES = {
    "reference/commands.md": commands,
    "settings.md": settings,
    "reference/forgetting.md": forgetting,
    "development/new-agent.md": new_agent,
    "context.svg": picture,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (HERE / name).write_text(page(), encoding="utf-8")
