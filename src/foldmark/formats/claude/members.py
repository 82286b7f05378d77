"""The members of Claude Code's records: what a record is, and how a new one is made [SPEC 8].

Only this module and `records` know their names. Standard library only, because hooks ask it.
"""

from collections.abc import Mapping

Record = Mapping[str, object]

CHAINED = frozenset({"user", "assistant", "system", "attachment"})
"""Types of records that can be a parent."""

SAID = ("user", "assistant")
"""Types of records that are the user's or the model's."""

TYPES = CHAINED | {
    "summary", "last-prompt", "custom-title", "ai-title", "tag", "relocated", "agent-name", "agent-color",
    "agent-setting", "mode", "permission-mode", "isolation-latch", "worktree-state", "pr-link", "bridge-session",
    "file-history-snapshot", "attribution-snapshot", "content-replacement", "fork-context-ref", "queue-operation",
    "progress", "marble-origami-commit", "marble-origami-snapshot", "marble-origami-reset", "api-request",
    "api-request-blob", "api-request-resumed", "api-request-shape", "artifact-autoreact-ledger",
    "artifact-comment-monitor", "atis-latch", "continued-in", "cost-state", "data-flow-incomplete", "data-flow-records",
    "derived-from", "dev-mods", "ended-by-model", "file-history-delta", "frame-link", "history-suppression",
    "hybrid-organization", "memory-mode", "observer-ref", "repl-mode", "resume-head-vouch", "session-owner", "started",
    "result", "tools-used",
}  # fmt: skip
"""Types of records that Claude Code writes, those of 2.1.332 included. `started` and `result` are of its workflows."""

SESSION, DISPLAY = "sessionId", "toolUseResult"
"""The members with the session's id, and with the copy of a result that is only displayed."""

PARENT, ASIDE = "parentUuid", "isSidechain"
"""The members with the uuid of the parent, and with the flag of a subagent's record."""

AGENT, PROMPTED_BY = "agentId", "sourceToolUseID"
"""The members with the id of the subagent, and with the call that led to a prompt."""

ERROR = ("isApiErrorMessage", "error", "errorDetails")
"""The members that mark an API error in place of an answer: the flag, and its texts."""

INJECTED: Record = {"isMeta": True}
"""The flag of a message that the client inserted."""

SUMMARY: Record = {"isVisibleInTranscriptOnly": True, "isCompactSummary": True}
"""The flags of a compaction's summary."""

MADE_UP = "foldmark_made_up"
"""Marks a record that only completes an exported session and was not in the conversation."""

CLIENT = "foldmark_client"
"""Marks an exported record whose text a client wrote by itself."""

RESPONSE = "foldmark_response"
"""The member with the original response id of an exported record whose answer got a new id; null if it had none."""

_NAMES = (SESSION, "uuid", PARENT, "leafUuid", "messageId")


def names_record(record: Record) -> bool:
    """Return True if a record has a type, and the id of its session, of itself or of another record."""
    return isinstance(record.get("type"), str) and any(isinstance(record.get(name), str) for name in _NAMES)


def is_aside(record: Record) -> bool:
    """Return True if a record is a subagent's."""
    return record.get(ASIDE) is True


def is_injected(record: Record) -> bool:
    """Return True if the client inserted the message."""
    return record.get("isMeta") is True


def is_summary(record: Record) -> bool:
    """Return True if a record holds the summary of a compaction."""
    return record.get("isCompactSummary") is True


def is_boundary(record: Record) -> bool:
    """Return True if a record is the boundary of a compaction or an edit."""
    return record.get("type") == "system" and record.get("subtype") == "compact_boundary"


def compaction(record: Record) -> object:
    """Return what a boundary says about its compaction, usually an object; None if there is nothing."""
    return record.get("compactMetadata")


def is_api_error(record: Record) -> bool:
    """Return True if Claude Code wrote an API error in place of an answer."""
    return record.get(ERROR[0]) is True and record.get("type") == "assistant"


def new_record(parent: str | None, uuid: str | None, session: str, moment: object, about: Record) -> dict[str, object]:
    """Return the beginning of a new record of the main chain. `about` are members that say where it was made."""
    return {PARENT: parent, ASIDE: False, **about, SESSION: session, "uuid": uuid, "timestamp": moment}
