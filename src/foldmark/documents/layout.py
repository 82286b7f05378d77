"""The JSON of a conversation [docs/reference/export.md]: its names, its version, and the shape of its parts."""

from typing import Any

from msgspec import Raw, Struct

FORMAT, VERSION = "foldmark conversation", 1
"""The format of a whole conversation, and its newest version."""

CONTEXT_FORMAT, CONTEXT_VERSION = "foldmark context", 1
"""The format of the messages in a context, which cannot be imported, and its newest version."""

SIGN = "foldmark "
"""The beginning of the value of `format` in every document of Foldmark."""


class Origin(Struct, frozen=True):
    """The conversation that was exported: its name (None for a fork), its agent's uuid, when it was created, and the
    uuids of the agents that it inherited from."""

    name: str | None
    agent: str
    created_at: str
    inherits: list[str] = []


class Start(Struct, frozen=True, omit_defaults=True):
    """What a fork began with, besides inherited events: pinned turns, evicted results, settings, and a scratchpad."""

    pins: list[int] = []
    evicted: list[int] = []
    settings: dict[str, Any] = {}
    scratchpad: str | None = None


class EventEntry(Struct, frozen=True, omit_defaults=True):
    """An event. `role`, `tokens` and `in_context` are for readers; an import computes them. `damaged` marks an event
    that differs from the recorded one, because bytes changed on the disk."""

    id: int
    kind: str
    actor: str
    created_at: str
    turn: int | None = None
    role: str | None = None
    content: str = ""
    data: dict[str, Any] | None = None
    dialect: str | None = None
    answers: int | None = None
    interrupted: bool = False
    inherited: bool = False
    erased: int | None = None
    damaged: bool = False
    in_context: bool | None = None
    tokens: int | None = None


class Head(Struct, frozen=True):
    """The members that tell what a JSON file is."""

    format: Any = None
    version: Any = None


class Document(Struct, frozen=True):
    """A whole conversation; each event is decoded when it is needed."""

    conversation: Origin
    events: list[Raw]
    start: Start = Start()
