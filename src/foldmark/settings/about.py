"""The meaning of each setting, for the documentation, and the requirement it comes from, or `+` [SPEC 10]."""

from typing import Any, NamedTuple

from foldmark.core import config
from foldmark.core.config import Config
from foldmark.settings import trim
from foldmark.settings.trim import TRIM


class About(NamedTuple):
    """One setting."""

    meaning: str
    source: str


ABOUT = {
    "model": About("Who answers.", "+"),
    "system": About("The system prompt.", "S0"),
    "sliding_context_tokens": About("The window's budget in tokens; 0 is off.", "S3"),
    "sliding_context_low_water": About("The share of the budget that `steady` reduces a full window to.", "+"),
    "context_size": About("The most turns that are sent; 0 is all.", "S2"),
    "context_policy": About("`steady`: requests only grow between boundaries. `eager`: each is made afresh.", "+"),
    "truncate_recent": About("Characters that stay of the newest tool results of the active turn.", "S2"),
    "truncate_recent_count": About("How many results those are.", "S2"),
    "truncate_active": About("Characters that stay of the active turn's older results.", "S2"),
    "truncate_inactive": About("Characters that stay of all other turns' results.", "S2"),
    "truncate_shape": About("Where a result is cut: at its end, or in its middle.", "S2, +"),
    "truncation": About("Whether tool results are cut at all.", "+"),
    "isolation": About("Whether tool calls of another dialect are left out.", "+"),
    "memos_injected": About("The most memos that are put into a request.", "S2"),
    "model_commands": About("The commands that the model may run.", "+"),
    "token_counting": About("How tokens are estimated.", "S3"),
    "thinking": About("How much the model is to think before it answers.", "+"),
    "cache_ttl": About("How long Anthropic keeps a prompt in its cache; `auto` goes by your pauses.", "+"),
    "warn_threshold": About("Percent of the model's window from which it is reminded.", "S4"),
    "recommend_threshold": About("Percent from which it is told to make room soon.", "S4"),
    "urgent_threshold": About("Percent from which it is told to make room now.", "S4"),
    "check_interval_seconds": About("Seconds between two reminders at least.", "S4"),
    "tools": About("The tools that the model is offered.", "+"),
    "tool_approval": About("Which tools run without asking the person. Not in a project's file.", "+"),
    "turn_steps": About("The most requests of one turn.", "+"),
    "window_summary": About("Whether the model sums up what the window has passed.", "S3"),
    "provider_compaction": About(
        "Whether summaries are written by the provider's API itself where it can (Anthropic's).", "+"
    ),
    "evict_superseded": About(
        "Whether results that a later read or write of the same file made stale are evicted, at boundaries.", "+"
    ),
    "provider_editing": About("What Anthropic's API leaves out of requests by itself, beside what Foldmark does.", "+"),
    "trim_threshold_chars": About("Characters from which `foldmark trim` cuts a result. Not per agent.", "S4"),
    "trim_target_tools": About("The tools whose results it cuts. Not per agent.", "S4"),
    "sync_exclude": About("Folders whose sessions `foldmark sync` passes over. Not in a project's file.", "+"),
    "recall_model": About("The model that `foldmark index` gives what was said to. Not in a project's file.", "+"),
}


def row(key: str) -> tuple[str, str, About]:
    """The default of a setting as TOML has it, what it takes, and the rest."""
    default, takes = (TRIM[key], trim.TAKES[key]) if key in TRIM else (getattr(Config(), key), config.takes(key))
    return _toml(default), takes, ABOUT[key]


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)
