"""The cost of an operation or a setting in thinking blocks [SPEC 5.7]."""

from collections.abc import Callable

from foldmark.core.events import Operation, Summary
from foldmark.core.ports import Snapshot
from foldmark.core.request import Request
from foldmark.operations.receipts import ThinkingChange
from foldmark.providers.registry import dialect_of
from foldmark.request.standing import Standing
from foldmark.request.thinking import binding


def changed(
    moment: Snapshot,
    request: Callable[[Standing], Request],
    at: Standing,
    there: Standing,
    operation: Operation | None = None,
) -> ThinkingChange:
    """Return the change of thinking in the agent's next request when it stands `there` instead of `at`, by an operation
    if one is given; nothing for models that do not bind it. `request` makes the request of a place. It makes both, so
    its cost grows with the window."""
    if not (binding(at) or binding(there)) or moment.newest("usage", at.lineage) is None:  # no model has answered
        return ThinkingChange()
    sent = request(at)
    if isinstance(operation, Summary) and operation.kept and operation.native:  # its source is not recorded yet
        (items,) = operation.native.values()
        rule = dialect_of(sent.provider, at.given.dialects).thinking
        return ThinkingChange(len(sent.thinking - rule.staying(sent.body, items[-1])))
    before, after = sent.thinking, request(there).thinking
    return ThinkingChange(len(before - after), len(after - before))
