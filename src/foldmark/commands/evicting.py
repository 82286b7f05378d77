"""`/context evict`: evict single tool results, by their ids or because they are stale [SPEC 4, 5.7]."""

from collections.abc import Sequence

from msgspec.structs import replace

from foldmark.commands.context import previewed
from foldmark.commands.registry import PREVIEW, Command, CommandCall
from foldmark.core.errors import CommandError
from foldmark.editing.evicting import SentResult, evict, eviction, question, stale_results
from foldmark.log import Result

SUPERSEDED = "--superseded"


def _evict(call: CommandCall) -> Result:
    ids, stale = call.get("ID"), call.flag(SUPERSEDED)
    if (ids is None) is not stale:
        raise CommandError(
            f"/context evict takes the ids of tool results, or {SUPERSEDED} for those that a later read or write of "
            "the same file has made stale; `/context show` shows ids"
        )
    return _superseded(call) if ids is None else _evicted(call, call.numbers("ID"), [])


def _superseded(call: CommandCall) -> Result:
    offered = stale_results(call.agent)
    if not offered:
        text = "No tool result of the next request is stale: no later call has read or written the same file."
        return Result(text, None, {"superseded": []})
    if not call.flag(PREVIEW):
        asked = question(offered)
        if call.asking.confirm is None and not call.flag("--yes"):
            text = f"{asked} Nothing was changed; repeat with --yes to do it, or name some of them by their ids."
            return Result(text, None, {"superseded": [each.data() for each in offered]})
        call.confirm(asked)
    return _evicted(call, [each.result.id for each in offered], offered)


def _evicted(call: CommandCall, wanted: Sequence[int | tuple[int, int]], offered: list[SentResult]) -> Result:
    own = {"superseded": [each.data() for each in offered]} if offered else {}
    if call.flag(PREVIEW):
        found = previewed(call, lambda moment, at: eviction(moment, at, wanted))
        lines = [found.text, *(f"  {each.line()}" for each in offered)]
        return replace(found, text="\n".join(lines), own={**found.own, **own})
    done = evict(call.agent, wanted, actor=call.actor, reason=call.reason)
    return replace(done, own={**done.own, **own})


EVICTING = (
    Command(
        "context evict",
        "[ID...] [--superseded] [--preview] [--yes]",
        "Send a placeholder instead of tool results: ids and ranges, or the stale ones.",
        _evict,
        interrupts=True,
        reason=True,
    ),
)
