"""JSON Schemas of the tools' answers that are JSON [SPEC 4.1].

What a client may rely on is required; anything more that an answer says is allowed.
"""

from typing import Any

_COUNT = {"type": "integer", "minimum": 0}
_IDS = {"type": "array", "items": {"type": "integer"}}

ROWS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "row_count": {**_COUNT, "description": "Rows in this answer"},
        "note": {"type": "string", "description": "What of the result is missing, and how to read on"},
        "rows": {"type": "array", "items": {"type": "object"}, "description": "Each row as column: value"},
    },
    "required": ["row_count", "rows"],
}
"""Of `query_db`."""

FILTERED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "message_count": {**_COUNT, "description": "Preview: messages that match"},
        "token_estimate": {**_COUNT, "description": "Preview: their tokens"},
        "ranges": {"type": "array", "items": {"type": "object"}, "description": "Preview: the matches, grouped"},
        "added": {**_IDS, "description": "Preview: ids that go with them, as the result of a call"},
        "planning_conversation_ids": _IDS,
        "matching_messages": {
            "type": "array",
            "description": "Preview: the first matches",
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "integer"},
                    "role": {"type": "string"},
                    "preview": {"type": "string"},
                },
                "required": ["id", "role", "preview"],
            },
        },
        "filter_event_id": {"type": "integer", "description": "Apply: the operation; `/restore ID` takes it back"},
        "messages_filtered": {**_COUNT, "description": "Apply: messages that left the context"},
        "context_before": _COUNT,
        "context_after": _COUNT,
    },
    "anyOf": [
        {"required": ["matching_messages", "message_count", "token_estimate"]},
        {"required": ["filter_event_id", "messages_filtered", "context_before", "context_after"]},
    ],
}
"""Of `filter_context`: of a preview, or of what was applied."""
