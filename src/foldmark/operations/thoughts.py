"""What an operation or a setting costs of a model's thinking [SPEC 5.7]."""

from collections.abc import Callable

from foldmark.core.events import Operation, Summary
from foldmark.core.ports import Snapshot
from foldmark.core.request import Request
from foldmark.operations.receipts import Thoughts
from foldmark.providers.registry import dialect_of
from foldmark.request.standing import Standing
from foldmark.request.thinking import binding


def changed(
    moment: Snapshot,
    request: Callable[[Standing], Request],
    at: Standing,
    there: Standing,
    operation: Operation | None = None,
) -> Thoughts:
    """What becomes of the thinking in the agent's next request when it stands `there` instead of `at`, by an operation
    if one is given; nothing for models that do not bind it. `request` makes
    the one of a place. It takes both, so it costs what the window holds.
    """
    if not (binding(at) or binding(there)) or moment.newest("usage", at.lineage) is None:  # no model has answered
        return Thoughts()
    sent = request(at)
    if isinstance(operation, Summary) and operation.kept and operation.native:  # what it stands for is not recorded yet
        (items,) = operation.native.values()
        rule = dialect_of(sent.provider, at.given.dialects).thinking
        return Thoughts(len(sent.thinking - rule.staying(sent.body, items[-1])))
    before, after = sent.thinking, request(there).thinking
    return Thoughts(len(before - after), len(after - before))
