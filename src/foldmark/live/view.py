"""What an edit has to know about the transcript of one agent of a client [SPEC 5.7]. Nothing is written here.

One thread records, and another one edits at the same time, so every member is replaced as a whole. What is not recorded
yet is known from memory. While the database is away, the last known state of the log counts.
"""

from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from time import monotonic
from typing import NamedTuple

from msgspec.structs import replace

from foldmark.core import selections
from foldmark.core.assembly.caching import common_length
from foldmark.core.assembly.eviction import begins, client_placeholder, in_place
from foldmark.core.errors import StoreError
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.segments import contains
from foldmark.live.asking import AskedFor, asked_line
from foldmark.live.clients.dialect import ClientAnswer, ClientDialect, ClientRequest
from foldmark.live.prompts import command_in, is_not_done
from foldmark.live.recognizing import OtherForm, recognized
from foldmark.live.sizes import PassedOn
from foldmark.log import Agent
from foldmark.overlay.edit import ContextView, EditMemory
from foldmark.overlay.ledger import KnownMessage, aligned, asked_in, placed
from foldmark.overlay.pieces import ClientMessage, decoded, text_of
from foldmark.request.client_sizes import LOCAL, Shown
from foldmark.request.planning import talk
from foldmark.request.standing import Standing
from foldmark.wires.parts import ResultMessage, TextMessage

QUEUED_SECONDS = 2.0
"""Maximum seconds between an answer and a prompt that waited for its end."""


class Seen(NamedTuple):
    """An agent's standing, with the placeholders and the messages to insert, as `ContextView` has them."""

    at: Standing
    evicted: Mapping[int, str]
    inserted: Sequence[tuple[int, bytes]]


class TranscriptView:
    """The messages of one agent of a client. `known` are those that it sends, as far as they are recorded, and `left`
    the events of those that it no longer sends. `bound` maps an answer's key to the prefix that its thinking is bound
    to, where that differs from what the client sent. `forms` maps a message's key to the other form in which the client
    may send it.

    `executed` are the replies to the commands that the newest request asks, by their keys; `unseen` are those that no
    answer has shown yet, and `said` the texts in which they were put before an answer, until one has come. `woven` are
    all such texts.
    `unanswered` is what the newest request asked, until its answer has come; `failed` is True if the provider has given
    none.

    `unsaid` is what is to be said with the next reply, or with the next answer if the newest one `shows` it. `whole` is
    True if the newest request went out without the edits.

    `asked` are the keys of the messages of the newest request. `local` has the blocks of commands to Foldmark and of
    its replies that this gateway has seen, by the keys of their messages. A new session has no agent until something of
    it is recorded, and until then there is nothing to edit.
    """

    def __init__(self, agent: Agent | None, session: str, dialect: ClientDialect) -> None:
        self.session, self.dialect = session, dialect
        self.known: list[KnownMessage] = []
        self.left: dict[int, None] = {}
        self.bound: dict[str, str] = {}
        self.forms: dict[str, OtherForm] = {}
        self.asked: list[str] = []
        self._asked_first = 0
        self.local: dict[str, tuple[int, ...]] = {}
        self.executed: dict[str, str] = {}
        self.unseen: dict[str, str] = {}
        self.said: tuple[str, ...] = ()
        self.woven: dict[str, None] = {}
        self.unanswered: AskedFor | None = None
        self.failed = False
        self.unsaid, self.shows, self.whole = "", False, False
        self.edit_memory = EditMemory()
        self._agent = agent
        self._idle_since = -QUEUED_SECONDS
        self._at: Standing | None = None
        self._seen: Seen | None = None
        self._placeholders: dict[int, str] = {}
        self._notices: dict[int, str] = {}

    @property
    def agent(self) -> Agent:
        """The agent in the log. Raises LookupError if there is none yet."""
        if self._agent is None:
            raise LookupError
        return self._agent

    @property
    def exists(self) -> bool:
        """True if the agent is in the log."""
        return self._agent is not None

    def shares(self, keys: Sequence[str]) -> int:
        """Return the number of messages at the beginning that a request with these keys has in common with what the
        client has sent."""
        return max(common_length([each.key for each in self.known], keys), common_length(self.asked, keys))

    @property
    def seen(self) -> int:
        """The newest event that the newest edit knew."""
        return 0 if self._at is None else self._at.newest

    def standing(self) -> Standing | None:
        """Return the agent's standing; None if it is not created yet."""
        if self._agent is None:
            return None
        try:
            self._at = self._agent.standing()
        except StoreError:
            if self._at is None:
                raise
        return self._at

    def is_edited(self, at: Standing | None) -> bool:
        """Return True if a request may have to differ from what the client sends."""
        if at is not None and (at.fold.segments != at.origin.segments or at.fold.evicted):
            return True
        return bool(self.bound or self.local or self.left) or any(LOCAL in each.ids for each in self.known)

    def look(self, known: Sequence[KnownMessage], *, inserts: bool) -> Seen | None:
        """Return what a request with the messages `known` must show, with messages to insert if `inserts`; None if the
        agent is not created yet."""
        if self._agent is None:
            return None
        try:
            with self._agent.reading() as (moment, at):
                if not self.is_edited(at):
                    seen = Seen(at, {}, ())
                else:
                    evicted = self.placeholders(moment, at.fold.evicted)
                    seen = Seen(at, evicted, list(self.inserted(moment, at, known)) if inserts else ())
        except StoreError:
            if self._seen is None:
                raise
            return self._seen if inserts else self._seen._replace(inserted=())
        if inserts:
            self._seen, self._at = seen, seen.at
        return seen

    def context_view(self, seen: Seen | None, messages: Sequence[ClientMessage], binds: bool) -> ContextView:
        """Return the context as an edit of a request with these messages needs it. `seen` is what it must show
        (`look`), and `binds` is True if the model binds its thinking."""
        shown = Shown("", ()) if seen is None else Shown(seen.at.record.id, seen.at.fold.segments)
        evicted, inserted = ({}, ()) if seen is None else (seen.evicted, seen.inserted)
        notice = partial(self.notice, messages)
        return ContextView(shown.shows, evicted, inserted, binds, self.bound, notice, shown.segments)

    def expected(self, messages: Sequence[ClientMessage], sign: str) -> list[KnownMessage]:
        """Return an entry for each message of a request, as far as it is recorded. Commands to Foldmark and its replies
        are known before that."""
        known = self.known
        places = self.places(messages, asks=True, known=known)
        first = places.index(None) if None in places else len(places)
        certain = self.commands(messages[first:], sign)
        return [
            self._unrecorded(message, certain.get(at, ())) if place is None else self.sent(known[place], message)
            for at, (message, place) in enumerate(zip(messages, places, strict=True), -first)
        ]

    def sent(self, known: KnownMessage, message: ClientMessage) -> KnownMessage:
        """Return a known message with an event for each block that the client sends of it."""
        if message.role == "user" and known.ids and len(known.ids) != len(message.blocks):
            ids = placed(self.dialect, message, known.ids)
            return known if ids is None else replace(known, ids=ids)
        form = self.forms.get(known.key)
        return known if form is None else form.with_blocks(known, len(message.blocks))

    def as_sent(self, messages: Sequence[ClientMessage], places: Sequence[int | None]) -> list[KnownMessage]:
        """Return the known messages as `sent` does; `places` are those of the messages that the client sends."""
        found = self.known.copy()
        for each, at in zip(messages, places, strict=True):
            if at is not None:
                found[at] = self.sent(found[at], each)
        return found

    def gone(self, kept: Container[int | None]) -> list[int]:
        """Return the events of the known messages but for those at the places `kept`; none if only thinking is gone."""
        found = [(each, self.forms.get(each.key)) for at, each in enumerate(self.known) if at not in kept]
        if all(form is not None and form.alone for _, form in found):
            return []
        whole = [known.ids if form is None else form.ids for known, form in found]
        told = [id for known, _ in found for id in known.told]
        return sorted([*(id for ids in whole for id in ids if id > 0), *told])

    def _unrecorded(self, message: ClientMessage, commands: Sequence[int]) -> KnownMessage:
        ids = self.local.get(message.key, ())
        if commands and not ids:
            ids = tuple(LOCAL if block in commands else 0 for block in range(len(message.blocks)))
        return KnownMessage(message.key, ids)

    def notice(self, messages: Sequence[ClientMessage], call_id: str, event_id: int) -> str:
        """Return the text to send for a result whose call has left: as recorded in the event, or as it will be recorded
        if that is 0. Empty if there is none."""
        if event_id and event_id in self._notices:
            return self._notices[event_id]
        try:
            if event_id:
                with self.agent.reading() as (moment, _):
                    event = selections.event(moment, event_id)
                text = event.content if event is not None and event.kind == "user" else ""
                self._notices[event_id] = text
                return text
            results = [
                part
                for message in messages
                if call_id in message.results
                for part in self.dialect.parts(message)
                if isinstance(part, ResultMessage) and part.call_id == call_id
            ]
            return (self.agent.notice_of(call_id, results[-1].text) if results else None) or ""
        except StoreError:
            return ""

    def recognized(self, request: ClientRequest) -> ClientRequest:
        """Return a request with its messages as they are known, though the client sends them in another form."""
        keys = [each.key for each in self.known]
        keys = self.asked if common_length(keys, self.asked) == len(keys) else keys  # these are not recorded yet
        return recognized(request, keys, self.forms)

    def divided(self, request: ClientRequest, sign: str, *, asks: bool) -> ClientRequest:
        """Return a request in which commands and replies are blocks of their own where the client joins texts: those
        known as such, and the newest prompt if the request `asks` it too soon after an answer to be typed after it."""
        queued = asks and monotonic() - self._idle_since < QUEUED_SECONDS
        blocks = {each.key: len(each.ids) for each in self.known if LOCAL in each.ids}
        blocks |= {key: len(ids) for key, ids in self.local.items()}
        made = list(request.sent)
        for at, each in enumerate(request.sent):
            message = each.message
            if message.role == "assistant" and self.woven:
                made[at] = self.dialect.unwoven(each, self.woven)
            elif message.role == "user" and (
                blocks.get(message.key, 0) > len(message.blocks)
                or (queued and at == len(made) - 1 and message.key not in blocks)
            ):
                made[at] = self.dialect.parted(each, lambda line: command_in(line, sign) is not None)
        return replace(request, sent=tuple(made))

    def note_local(self, key: str, size: int, own: Iterable[int]) -> None:
        """Remember the blocks of a message that are commands to Foldmark, or its replies, until they are recorded. The
        message has a key and `size` blocks."""
        self.local = {**self.local, key: tuple(LOCAL if block in own else 0 for block in range(size))}

    def read(self, passed: PassedOn, answer: bytes, *, streamed: bool) -> tuple[PassedOn, ClientAnswer | None]:
        """Read the answer to a request, with Foldmark's own text as a block of its own; None if it is incomplete."""
        found = self.dialect.answer(answer, streamed=streamed)
        if found is None or not passed.said:
            return passed, found
        parted = self.dialect.woven(found, passed.said)
        return (passed._replace(said=""), found) if parted is None else (passed, parted)

    def unshown(self, messages: Iterable[ClientMessage], replies: Iterable[str]) -> list[str]:
        """Return the replies that the client does not show yet: it keeps what has come of an answer that it aborts."""
        own = [
            part.text
            for message in messages
            for block, part in zip(message.blocks, self.dialect.parts(message), strict=True)
            if isinstance(part, TextMessage) and self.dialect.is_own(block)
        ]
        shown, found = "\n\n".join(own), list[str]()
        for reply in replies:
            if reply in shown:
                shown = shown.replace(reply, "", 1)
            else:
                found.append(reply)
        return found

    def note_executed(self, key: str, reply: str) -> None:
        """Remember the reply to a command, as long as requests ask it."""
        self.executed, self.unseen = {**self.executed, key: reply}, {**self.unseen, key: reply}

    def note_asked(self, asked: AskedFor, messages: Sequence[ClientMessage]) -> None:
        """Remember what the newest request asks; `messages` are its messages. A client may drop even a complete answer,
        and ask again. It may also drop a command whose answer it has aborted: then the reply is still to be said."""
        commands = {each.key for each in asked.commands}
        if not commands.issuperset(self.unseen):
            said = self._said_in(messages[self._asked_first :])
            lost = [text for key, text in self.unseen.items() if key not in commands and text not in said]
            self.unsaid = "\n\n".join(filter(None, (self.unsaid, *lost)))
            self.unseen = {key: text for key, text in self.unseen.items() if key in commands}
        self.asked, self._asked_first = list(asked.keys), asked.first
        self.executed = {key: text for key, text in self.executed.items() if key in commands}

    def _said_in(self, messages: Iterable[ClientMessage]) -> str:
        """Return the texts of all answers among messages."""
        parts = (part for each in messages if each.role == "assistant" for part in self.dialect.parts(each))
        return "\n\n".join(part.text for part in parts if isinstance(part, TextMessage))

    def note_answered(self) -> None:
        """Remember that the newest request is answered."""
        self.said, self.unanswered, self.unseen = (), None, {}

    def note_idle(self) -> None:
        """Remember that an answer has ended now."""
        self._idle_since = monotonic()

    def with_unsaid(self, text: str) -> str:
        """Return a text after what is still to be said."""
        return "\n\n".join(filter(None, (self.unsaid, text)))

    def note_said(self, text: str) -> None:
        """Remember a text that is put before the newest answer."""
        self.said += (text,)
        self.woven = {**self.woven, text: None}

    def note_sent(self, asked: AskedFor) -> None:
        """Remember what the provider is asked now."""
        self.unanswered, self.failed = asked, False

    def note_failed(self, asked: AskedFor | None) -> None:
        """Remember that the provider gives no answer to what was asked. The client asks again, or gives up."""
        self.failed |= asked is self.unanswered

    def note_bound(self, key: str, prefix: str) -> None:
        """Remember the prefix that the thinking of an answer is bound to, until it is recorded."""
        self.bound = {**self.bound, key: prefix}

    def placeholders(self, moment: Snapshot, evicted: Iterable[int]) -> dict[int, str]:
        """Return the placeholder sent for each evicted result."""
        new = [id for id in evicted if id not in self._placeholders]
        if new:
            found = {event.id: client_placeholder(len(event.content)) for event in moment.events(new)}
            self._placeholders.update(found)
        return {id: self._placeholders[id] for id in evicted if id in self._placeholders}

    def stands(self, moment: Snapshot, at: Standing) -> dict[int, int]:
        """Return the place of each summary: the first event that it replaces."""
        if "summary" not in at.newest_of:
            return {}
        return {each.id: begins(each) for each in selections.operations(moment, at.record.id) if each.kind == "summary"}

    def inserted(self, moment: Snapshot, at: Standing, known: Sequence[KnownMessage]) -> Iterator[tuple[int, bytes]]:
        """Yield the messages that the context shows but the client does not send: summaries, and messages that the
        client left out and a person restored. `known` are the messages of a request."""
        agent, planned = at.record.id, talk(moment, at)
        sent = {id for each in known for id in each.ids}
        gone = sorted({id for each in self.known for id in each.ids if id > 0} - sent)
        wanted = {id for id in self.left if id not in sent}
        stands = self.stands(moment, at)
        wanted |= stands.keys() - sent
        wanted -= set(gone)  # these are about to leave, because the client no longer sends them
        wanted = {id for id in wanted if contains(at.visible, agent, id) and not contains(planned, agent, id)}
        if not wanted:
            return
        places = sorted(stands.get(id, id) for id in sent if id > 0)
        events = in_place(moment.events(sorted(wanted)))
        answered = self._answered(moment, events, sent)  # the client sends another result in place of these
        kept = [each for each in events if each.kind != "tool_result" or each.answers not in answered]
        for _, run in groupby(kept, lambda event: bisect_left(places, begins(event))):
            first, *rest = run
            yield from ((begins(first), raw) for raw in self.dialect.messages_of([first, *rest]))

    def _answered(self, moment: Snapshot, events: Iterable[Event], sent: Container[int]) -> set[int | None]:
        """Return the calls of these results that a result in the request answers."""
        calls = sorted({each.answers for each in events if each.kind == "tool_result" and each.answers is not None})
        results = moment.results(moment.lookup(calls)) if calls else ()
        return {each.answers for each in results if each.id in sent}

    def places(
        self, messages: Sequence[ClientMessage], *, asks: bool, known: Sequence[KnownMessage]
    ) -> list[int | None]:
        """Return the place in `known` of each of the client's messages, None for a new one. With `asks`, they are a
        request: a prompt that has left the context counts as new if it is asked again."""
        asked = asked_in(messages) if asks else len(messages)
        places = aligned(known, messages, asked)
        first = places.index(None) if None in places else len(places)
        if first < len(places) and self.dialect.is_compacted(messages[first]):
            places[first:] = self._behind_summary(messages[first:], places[first:], known)
        place = places[asked] if asked < len(messages) else None
        if place is None or messages[asked].results:
            return places
        ids = [id for id in known[place].ids if id > 0]
        at = self.standing() if ids else None
        if at is not None and not any(contains(at.visible, at.record.id, id) for id in ids):
            places[asked:] = [None] * (len(messages) - asked)
        return places

    def _behind_summary(
        self, messages: Sequence[ClientMessage], places: Sequence[int | None], known: Sequence[KnownMessage]
    ) -> list[int | None]:
        """Return the places of the messages from the summary of a compaction on. What the client keeps counts as new,
        because the log has it before the summary, but for exchanges with what has been taken out or evicted."""
        at = self.standing()

        def is_shown(place: int) -> bool:
            ids = [id for id in known[place].ids if id]
            return at is not None and all(
                id > 0 and contains(at.visible, at.record.id, id) and id not in at.fold.evicted for id in ids
            )

        stays = [place is not None and not is_shown(place) for place in places]
        for number, message in enumerate(messages[1:], 1):
            if message.results and (stays[number] or stays[number - 1]):
                stays[number - 1 : number + 1] = True, True
        return [place if stay else None for place, stay in zip(places, stays, strict=True)]

    def commands(self, new: Sequence[ClientMessage], sign: str) -> dict[int, tuple[int, ...]]:
        """Return the messages with blocks that are certainly commands to Foldmark or its replies, with the numbers of
        these blocks. A client may repeat them in another transcript, such as a sub-agent's, and may leave out the
        replies there."""
        found: dict[int, tuple[int, ...]] = {}
        for place, message in enumerate(new):
            if message.role != "assistant":
                own = self._commands(message, new[place + 1 :], sign)
            elif self.dialect.is_reply(message) or is_not_done(message):
                own = list(range(len(message.blocks)))
                asked = next((at for at in range(place - 1, -1, -1) if new[at].role == "user"), None)
                typed = [] if asked is None else self.dialect.prompts(new[asked])
                if asked is not None and typed:
                    found[asked] = tuple({*found.get(asked, ()), typed[-1].block})
            else:
                own = [at for at, block in enumerate(message.blocks) if self._is_own(block)]
            if own:
                found[place] = tuple(own)
        return found

    def _is_own(self, block: bytes) -> bool:
        return self.dialect.is_own(block) or (bool(self.woven) and decoded(block).get("text") in self.woven)

    def _commands(self, message: ClientMessage, following: Sequence[ClientMessage], sign: str) -> list[int]:
        """Return the blocks of commands, unless a model may have answered them: then nothing else was asked."""
        typed = self.dialect.prompts(message)
        commands = [each for each in typed if asked_line(each, sign) is not None]
        answer = next((each for each in following if each.role != "system"), None)
        alone = len(commands) == len(typed) and not message.results
        if alone and answer is not None and answer.role == "assistant" and not self.dialect.is_reply(answer):
            commands = [each for each in commands if each.queued]
        # The files that a refused text names follow it.
        ends = [len(message.blocks) if each.joined else each.block + 1 for each in commands]
        blocks = [at for each, end in zip(commands, ends, strict=True) for at in range(each.block, end)]
        announced = [at - 1 for at in blocks if at and self.dialect.agent.announces(text_of(message.blocks[at - 1]))]
        return sorted({*blocks, *announced})
