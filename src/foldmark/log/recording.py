"""Record a model's answer as several events: its text with the blocks that go back to the provider, its calls, its
summaries [SPEC 2, 5.2]. Save memos, which belong to no conversation [SPEC 7].
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from foldmark.core import selections
from foldmark.core.assembly.eviction import OPAQUE
from foldmark.core.errors import CommandError, ProviderError
from foldmark.core.ports import Snapshot
from foldmark.core.records import Memo, checked_content, checked_tags
from foldmark.core.request import Compacted, Kept, Stopped, ToolCall, Usage, distinct, shifted
from foldmark.core.segments import END
from foldmark.core.wording import listing
from foldmark.log.operable import Operable
from foldmark.request.usage import usage_data


def append_answer(
    agent: Operable,
    text: str,
    kept: Sequence[dict[str, Any]],
    calls: Sequence[ToolCall],
    dialect: str | None,
    *,
    interrupted: bool = False,
    compacted: Sequence[Compacted] = (),
    reader: str = "",
) -> list[int]:
    """Record an answer and return the ids of its messages; an empty answer records nothing.

    A state block at the end of the text is recorded as a separate event. No dialect repeats text in the blocks that go
    back to it. A block that contains a provider's key is left out: without the key its signature would not match. Each
    of `compacted` becomes a summary of everything before it, in the form of `reader` (`eviction`).
    """
    found, done, before = [], 0, 0
    with agent.batch():
        for each in compacted:
            found += _append_text(agent, text[done : each.after], shifted(kept[before : each.kept], done), dialect)
            done, before = each.after, each.kept
            found.append(_append_summary(agent, each, reader))
        found += _append_text(agent, text[done:], shifted(kept[before:], done), dialect, interrupted=interrupted)
        for call in calls:
            signed = {"thought_signature": call.signature} if call.signature else None
            event_id = agent.append_tool_call(call.name, call.args, call_id=call.call_id, dialect=dialect, data=signed)
            found.append(event_id)
    return found


def _append_text(
    agent: Operable, text: str, kept: Sequence[dict[str, Any]], dialect: str | None, *, interrupted: bool = False
) -> list[int]:
    secrets = agent.log.secrets
    kept = [block for block in kept if not secrets or secrets.hidden_in(block) == block]
    if not (text or kept):
        return []
    data, own = ({"blocks": kept}, dialect) if kept else (None, None)
    return [agent.append("assistant", text, interrupted=interrupted, data=data, dialect=own)]


def _append_summary(agent: Operable, compacted: Compacted, reader: str) -> int:
    from foldmark.operations.summaries import provider_form, provider_summary  # few answers contain a summary

    form = provider_form(agent.log.secrets, compacted, reader)
    receipt = agent.operate(
        lambda moment, at: provider_summary(moment, at, form), actor="system", content=compacted.text or OPAQUE
    )
    return receipt.event_id


def append_parsed(agent: Operable, provider: str, answer: Mapping[str, Any]) -> list[int]:
    """Record an answer as a provider's API returned it (see `Agent.append_answer`)."""
    from foldmark.providers.registry import dialect_of

    if not isinstance(provider, str) or not isinstance(answer, Mapping):
        raise CommandError(
            f"an answer must be a provider's name and a mapping, as from .model_dump(), not {type(answer).__name__}"
        )
    dialect = dialect_of(provider, agent.log.given.dialects)
    own, model = agent.standing().config.model.partition("/"), answer.get("model")
    model_asked = (None, None) if own[0] == provider else (provider, model if isinstance(model, str) else None)
    parsed = dialect.parse({str(key): value for key, value in answer.items()})
    pieces = dialect.thinking.bind(lambda: agent.asked(*model_asked).body, parsed)
    if not pieces:
        raise ProviderError("answer", f"this is not an answer of {provider}'s API, or is empty; nothing was recorded")
    calls = [piece for piece in pieces if isinstance(piece, ToolCall)]
    agent.answered = None
    with agent.batch():
        named = [replace(c, call_id=c.call_id or f"call-{agent.standing().newest}") for c in calls]
        text = "".join(piece for piece in pieces if isinstance(piece, str))
        kept = [piece.block for piece in pieces if isinstance(piece, Kept)]
        compacted = [piece for piece in pieces if isinstance(piece, Compacted)]
        found = append_answer(
            agent, text, kept, distinct(named), dialect.recorded, compacted=compacted, reader=dialect.reads
        )
        for usage in (piece for piece in pieces if isinstance(piece, Usage)):
            stopped = next((piece for piece in pieces if isinstance(piece, Stopped)), None)
            data = usage_data(provider, str(answer.get("model", "")), usage, stopped)
            agent.record("usage", data=data if agent.answered is None else {"request": agent.answered, **data})
    return found


def save_memo(agent: Operable, content: str, tags: Iterable[str], actor: str) -> Memo:
    """Save a memo, with providers' keys removed. Raises CommandError for invalid content or tags."""
    secrets = agent.log.secrets
    text, each = checked_content(secrets.hidden(content)), checked_tags(map(secrets.hidden, tags))
    with agent.log.store.write() as transaction:
        memo_id = transaction.save_memo(text, each, agent.id, actor, agent.log.clock())
        memo = selections.memo(transaction, memo_id)
    assert memo is not None
    return memo


def memo_with_id(moment: Snapshot, memo_id: int) -> Memo:
    """Return the memo with this id. Raises CommandError."""
    memo = selections.memo(moment, memo_id) if 0 < memo_id < END else None
    if memo is None:
        newest = listing(each.id for each in moment.memos(5))
        raise CommandError(f"there is no memo {memo_id}; {f'the newest: {newest}' if newest else 'there is none yet'}")
    return memo
