"""The wires that `foldmark live` reads [SPEC 5.7]: Foldmark's own, and those of packages (`plugins.WIRES`)."""

from foldmark.core.errors import CommandError
from foldmark.core.wording import listing
from foldmark.live.clients.dialect import ClientDialect
from foldmark.live.live_agent import LiveAgent
from foldmark.plugins import WIRES, find, names

BUILT_IN = {
    "anthropic": "foldmark.live.clients.anthropic:ANTHROPIC",
    "openai_responses": "foldmark.live.clients.openai:OPENAI",
    "openai": "foldmark.live.clients.openai_chat:CHAT",
    "gemini": "foldmark.live.clients.gemini:GEMINI",
}
"""Foldmark's own wires: Messages, Responses, Chat Completions and generateContent."""


def wire_named(name: str) -> ClientDialect:
    """Return the wire of this name. Raises CommandError if there is none, or if its package fails."""
    if (found := find(WIRES, name, ClientDialect, BUILT_IN)) is None:  # type: ignore[type-abstract]
        known = listing([*BUILT_IN, *names(WIRES)])
        raise CommandError(f"no installed package reads the wire '{name}'; available: {known}")
    return found


def wires_of(agent: LiveAgent) -> tuple[ClientDialect, ...]:
    """Return the wires that a gateway reads: first the agent's own, as this agent speaks it, then all of Foldmark's,
    which the agent's programs may speak. Raises CommandError like `wire_named`."""
    own = wire_named(agent.wire).spoken_by(agent) if agent.wire else None
    others = (wire_named(name) for name in BUILT_IN if name != agent.wire)
    return tuple(others) if own is None else (own, *others)
