"""The readable side of an agent: its context, now and at any event, and the request that would go out [SPEC 2, 5]."""

from functools import partial

import msgspec
from msgspec.structs import replace

from foldmark.core.changes import check_page
from foldmark.core.errors import CommandError
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.pressure import is_ephemeral
from foldmark.core.replay import recorded, replay
from foldmark.core.request import Request, ToolSpec
from foldmark.core.segments import END, normal, until
from foldmark.log.context import Context
from foldmark.log.timeline import Timeline
from foldmark.request.planning import talk
from foldmark.request.standing import Standing, as_of


class Readable(Timeline):
    """A timeline whose context and request can be read. Nothing here writes."""

    def context(self) -> Context:
        """Return the present context. It reads stored segments; messages are read on demand."""
        with self.reading() as (_, at):
            if not self._batching and self._head != at.record.head:
                self._head, self._speaks = at.record.head, None  # others may have changed the settings
        return Context(self._store, at)

    def request(
        self,
        provider: str | None = None,
        model: str | None = None,
        *,
        limit: int | None = None,
        at: Standing | None = None,
    ) -> Request:
        """Return the request that would go out now, by default to this agent's own model [SPEC 5]; nothing is sent or
        written.

        In a planning conversation under high pressure it holds that conversation and nothing else of the context [SPEC
        4.2]. `limit` is a number of tokens that older turns make room for, by default what the model takes unless there
        is no budget; `at` is another place where this agent might stand, by default where it stands. Raises
        CommandError for an unknown provider.
        """
        if not isinstance(provider, str | None) or not isinstance(model, str | None):
            raise CommandError(f"a provider and a model are texts, not {provider!r} and {model!r}")
        with self._store.read() as moment:
            at = self.standing_in(moment) if at is None else at
            return self._request(moment, at, provider, model, limit)

    def _request(
        self, moment: Snapshot, at: Standing, provider: str | None, model: str | None, limit: int | None
    ) -> Request:
        from foldmark.request.fullness import whole
        from foldmark.request.prepare import prepare  # takes 20 ms, and only requests need it

        config = at.config
        own = config.model.partition("/")
        provider, model = provider or own[0], model or own[2] or provider or own[0]
        known, planned = self.log.model_named(f"{provider}/{model}"), talk(moment, at)
        window, output = known.window, known.answer
        full = is_ephemeral(whole(at, provider, model), window)
        if at.fold.leaving is not None:
            # The model still has to report that it is done: to the end of the turn it sees what leaves with the turn.
            fold = msgspec.structs.replace(at.fold, segments=normal((*at.fold.segments, *planned)))
            size = moment.size(until(fold.segments, at.newest))
            at = msgspec.structs.replace(at, fold=fold, size=size)
        # With the budget off the request is the whole context, whatever the model takes [SPEC 5].
        most = limit if limit is not None else window - output if config.sliding_context_tokens else None
        made = partial(
            prepare, moment, at, config, provider, model, tools=self.tools_in(moment, at), limit=most, output=output
        )
        request = made(only=planned if planned and full else None)
        if planned and not full and is_ephemeral(request.tokens, window):
            return made(only=planned)
        return request

    def tools(self) -> list[ToolSpec]:
        """Return the tools offered to this agent's model: those of its setting `tools`, those that an open planning
        conversation needs, and `slash` with the commands of `model_commands`; `evict` only if there are such
        commands."""
        with self.reading() as (moment, at):
            return self.tools_in(moment, at)

    def tools_in(self, moment: Snapshot, at: Standing) -> list[ToolSpec]:
        """Return the tools offered where the agent stands in a moment."""
        config, there = at.config, self.log.tools()
        if (wanted := config.tools) != "all":
            names = {*wanted.split(", "), *(["filter_context"] if talk(moment, at) else [])}
            there = [spec for spec in there if spec.name in names]
        commands = config.model_commands
        if commands == "none":
            return [spec for spec in there if spec.name not in ("slash", "evict")]
        return there if commands == "all" else [_with_commands(spec, commands.split(", ")) for spec in there]

    @property
    def window(self) -> int:
        """The tokens that this agent's model takes."""
        return self.log.model_named(self.standing().config.model).window

    def events(self, after: int = 0, limit: int = 100) -> list[Event]:
        """Return up to `limit` (1 to 1000) of the agent's own events of all kinds with ids above `after`, oldest first.

        The id of the last one is `after` for the next page, also after new events were committed. Inherited events
        stand with the parent. An erased event keeps its id, kind, time and actor. Raises CommandError.
        """
        if not isinstance(after, int) or not 0 <= after < END:
            raise CommandError(f"after is an event's id, or 0 to begin with the first event, not {str(after)[:40]}")
        check_page(limit)
        with self._store.read() as moment:
            return moment.events_after(self.id, after, limit)

    def at(self, event_id: int) -> Context:
        """Return the context as it was after event `event_id`, of any agent. Erased messages stay erased.

        Raises CommandError for an id that does not exist yet, or from before this agent was born.
        """
        with self._store.read() as moment:
            return Context(self._store, self.stood(moment, event_id))

    def stood(self, moment: Snapshot, event_id: int) -> Standing:
        """Return where the agent stood after event `event_id`; raises as `at`."""
        now = self.standing_in(moment)
        if not isinstance(event_id, int):
            raise CommandError(f"an event's id is a number, not {event_id!r}")
        if event_id > now.newest:
            raise CommandError(f"there is no event {event_id} of this agent yet; its newest is {now.newest}")
        if event_id < 1:
            raise CommandError(f"events are numbered from 1, and there is no event {event_id}")
        if event_id < now.record.fork_event:
            raise CommandError(f"this agent was born with event {now.record.fork_event}, after event {event_id}")
        fold = replay(now.origin, recorded(moment.operations(self.id, until=event_id)))
        then = as_of(moment, now, event_id)
        record = msgspec.structs.replace(then.record, open_turn=None)
        return msgspec.structs.replace(then, record=record, fold=fold, size=moment.size(until(fold.segments, event_id)))


def _with_commands(spec: ToolSpec, commands: list[str]) -> ToolSpec:
    """Return `slash` with these commands; any other tool unchanged."""
    if spec.name != "slash":
        return spec
    properties = spec.parameters["properties"]
    narrowed = {**properties, "command": {**properties["command"], "enum": commands}}
    return replace(spec, parameters={**spec.parameters, "properties": narrowed})
