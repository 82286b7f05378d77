"""What Anthropic's models take for thinking, by their names. Pure.

Up to Claude 3.5 they do not think. Up to 4.5 they think within a budget of tokens, which is part of `max_tokens`. From
4.6 on they decide themselves ("adaptive"), and an effort says how much; from 5 on they do so unless told otherwise, and
some cannot be told: there a low effort is the nearest to "off". From 4.7 on the text of the thinking is left out of the
answer unless it is asked for. From 5.1 on a thinking block is bound to what stood before it when it was made, unless
the table of models says otherwise (`anthropic_binding`). Of a model whose name tells no version nothing is demanded.

Sources, autumn 2026: platform.claude.com/docs/en/build-with-claude/thinking, /thinking-troubleshooting, /effort,
/preserved-thinking/prefix-checks, and the migration guides of Opus 5.5, Sonnet 5.5 and Haiku 5.5.
"""

import re
from typing import Any

from msgspec import Struct

BINDING_BETA = "thinking-binding-controls-2026-08-01"
"""The `anthropic-beta` that a request with `block_binding` needs."""

SMALLEST = 1024
"""Tokens of a budget at least."""

_NAME = re.compile(r"claude-(?:([a-z]+)-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)(?:-([a-z]+))?")
_QUARTERS = {"low": 1, "medium": 2, "high": 3}
_CAN_STOP = {("opus", (5, 0)), ("sonnet", (5, 0)), ("haiku", (5, 5))}
_BINDS = (5, 1)
_STOPS_BEFORE_TOOLS = {("sonnet", (5, 5))}


def compacts(model: str) -> bool:
    """Whether the API sums up a conversation with this model when it is asked to (build-with-claude/
    compaction-on-demand): from 4.6 on, of the Haikus from 5.5 on. Of a name without a version that is not known."""
    name = _NAME.search(model)
    if name is None:
        return False
    family, version = name[1] or name[4] or "", (int(name[2]), int(name[3] or 0))
    return version >= ((5, 5) if family == "haiku" else (4, 6))


class Asked(Struct, frozen=True):
    """What a request says about thinking: its `thinking` parameter and its effort, None for nothing.

    `thinks` is whether the model may then think; only so it wants to see its thinking blocks again. `strict` ones want
    an answer that holds any to begin with one. `bound` is whether blocks are bound to what stands before them.
    """

    parameter: dict[str, Any] | None = None
    effort: str | None = None
    thinks: bool = True
    strict: bool = False
    bound: bool = False


def asked(model: str, level: str, output: int, bound: bool | None = None) -> Asked:
    """How `level` (of `Options.thinking`) is said to a model that may answer with `output` tokens; `bound` is whether
    the model is known to bind thinking."""
    name = _NAME.search(model)
    if name is None:
        return Asked(bound=bool(bound))
    family, version = name[1] or name[4] or "", (int(name[2]), int(name[3] or 0))
    if version < (3, 7):
        return Asked(thinks=False)
    if version < (4, 6):
        return _budgeted(level, output)
    return _adaptive(family, version, level, version >= _BINDS if bound is None else bound)


def binds(model: str) -> bool:
    """Whether a model binds thinking, by its name: for those that are newer than the table of models."""
    name = _NAME.search(model)
    return name is not None and (int(name[2]), int(name[3] or 0)) >= _BINDS


def _budgeted(level: str, output: int) -> Asked:
    """A quarter, a half or three quarters of the answer's tokens; nothing where that leaves none for the answer."""
    budget = max(SMALLEST, output * _QUARTERS.get(level, 0) // 4)
    if level in _QUARTERS and budget < output:
        return Asked({"type": "enabled", "budget_tokens": budget}, strict=True)
    return Asked({"type": "disabled"} if level == "off" else None, thinks=False)


def _adaptive(family: str, version: tuple[int, int], level: str, bound: bool) -> Asked:
    if level in _QUARTERS:
        shown = {"display": "summarized"} if version >= (4, 7) else {}
        return Asked({"type": "adaptive", **shown}, level, bound=bound)
    if level != "off":
        return Asked(thinks=version >= (5, 0), bound=bound)
    if version < (5, 0) or (family, version) in _CAN_STOP:
        return Asked({"type": "disabled"}, thinks=False)
    if (family, version) in _STOPS_BEFORE_TOOLS:
        return Asked({"type": "between_tools"}, thinks=False)
    return Asked(None, "low", bound=bound)
