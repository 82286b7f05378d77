"""Taking single tool results out of what is sent, and offering those that are stale [SPEC 5.7]."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from foldmark.conversation import decide
from foldmark.conversation.operations import results_named
from foldmark.conversation.receipts import Result
from foldmark.conversation.standing import Standing
from foldmark.core.codec import count_tokens
from foldmark.core.events import Event, Evict
from foldmark.core.eviction import placeholder
from foldmark.core.superseded import Superseded, superseded
from foldmark.core.wording import count, one_line

if TYPE_CHECKING:
    from foldmark.conversation.agent import Agent


class SentResult(Struct, frozen=True):
    """A tool result of the next request: its event and its call, the tokens that its eviction would save there, and
    what made it stale if anything did."""

    result: Event
    call: Event
    tokens: int
    stale: Superseded | None

    def data(self) -> dict[str, Any]:
        """As JSON."""
        found: dict[str, Any] = {"id": self.result.id, "tool": self.tool, "tokens": self.tokens}
        if self.stale is not None:
            found |= {"path": self.stale.path, "superseded_by": self.stale.by, "how": self.stale.how}
        return found

    @property
    def tool(self) -> str:
        """The name of the tool."""
        return str((self.call.data or {}).get("name", ""))

    def line(self) -> str:
        """`12 · read_file({"path":"a.py"}) · ~1,200 tokens · read again by call 30`."""
        parts = [str(self.result.id), one_line(f"{self.tool}({self.call.content})"[:80])]
        parts.append(f"~{count(self.tokens, 'token')}")
        if self.stale is not None:
            parts.append(f"{'read again' if self.stale.how == 'read' else 'written'} by call {self.stale.by}")
        return " · ".join(parts)


def sent_results(agent: "Agent") -> list[SentResult]:
    """The tool results of the next request whose eviction would save something, in order. Cost follows the window."""
    store, found = agent.log.store, []
    for part in agent.request().manifest.parts:
        if part.kind == "tool_result" and part.event is not None:
            result = store.event(part.event)
            call = store.event(result.answers) if result is not None and result.answers is not None else None
            if result is not None and call is not None:
                saved = count_tokens(part.text, None) - count_tokens(placeholder(result, result.id), None)
                found.append((call, result, 0 if part.how == "evicted" else saved))
    stale = {each.result: each for each in superseded((call, result) for call, result, _ in found)}
    return [SentResult(result, call, saved, stale.get(result.id)) for call, result, saved in found if saved > 0]


def evict(
    agent: "Agent", decision: Callable[[Standing], Evict], *, actor: str = "human", reason: str | None = None
) -> Result:
    """Record an eviction; the result says what it took out of requests. Raises CommandError."""
    receipt = agent.operate(decision, actor=actor, reason=reason)
    operation = receipt.operation
    assert isinstance(operation, Evict)
    named = results_named(operation.results)
    text = f"{named[0].upper()}{named[1:]} evicted: a one-line placeholder is sent instead."
    return Result(text, receipt.event_id, {**receipt.data(), "results": list(operation.results)})


def stale_results(agent: "Agent") -> list[SentResult]:
    """Those of the next request's results that a later read or write has made stale."""
    return [each for each in sent_results(agent) if each.stale is not None]


def question(offered: list[SentResult]) -> str:
    """What a person is asked before stale results are evicted."""
    what, tokens = count(len(offered), "stale result"), sum(each.tokens for each in offered)
    lines = [f"  {each.line()}" for each in offered]
    return "\n".join([*lines, f"Evict {what} (~{count(tokens, 'token')} of the next request)?"])
