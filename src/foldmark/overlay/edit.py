"""Apply the operations in force to a client's request [SPEC 5.7]. Pure.

Messages that the context no longer shows are left out, in whole exchanges, as operations remove them. Everything else
keeps its bytes, with three exceptions: cache marks move to the nearest preceding message that is kept, thinking is
removed if it was bound to messages that are gone, and neighbours from one side are joined. Blocks that the client
injected or that Foldmark does not know stay.

A system message between the others belongs to the message before it, and leaves and returns with it. Those that the
client adds to its first prompt, to a command to Foldmark, or without any text, tell the model of the client's state
once and for all: they stay, and `ClientDialect.joined` finds their place.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from hashlib import blake2b
from typing import NamedTuple

from foldmark.core.assembly.caching import common_length
from foldmark.overlay.ledger import KnownMessage, placed
from foldmark.overlay.pieces import ClientMessage, MisplacedError, PieceForm, SentMessage, decoded
from foldmark.request.client_sizes import LOCAL


class ContextView(NamedTuple):
    """The context as a request needs it. `shows` returns True if an event is visible, `evicted` has the placeholder of
    each evicted result, `inserted` (in order) the messages to put before the first message with a later event. `binds`
    is True if the model binds thinking, `bound` has the prefix that the thinking of an answer is bound to, by the
    answer's key. `notice` returns the text for a result, by the id of its call, which has left, and by its own event or
    0; the block is replaced by it. Two views whose `key` is equal show the same events; None if that is not known.
    `stands` has the place of each summary that the client sends itself: the first event that it replaces."""

    shows: Callable[[int], bool]
    evicted: Mapping[int, str]
    inserted: Sequence[tuple[int, bytes]] = ()
    binds: bool = False
    bound: Mapping[str, str] = {}
    notice: Callable[[str, int], str] = lambda call, event_id: ""
    key: object = None
    stands: Mapping[int, int] = {}


class EditedMessages(NamedTuple):
    """The messages to send, and the prefix that the answer's thinking will be bound to, if the model binds it. `whole`
    is True if the operations could not be applied."""

    messages: list[bytes]
    prefix: str
    changed: bool
    whole: bool = False


class _Progress:
    """The edit of the first messages of a transcript: the messages to send instead, and the state for the next ones.

    `ours` and `theirs` are digests of the sent and of the client's messages, if the model binds thinking. `waiting`
    lists the messages to insert later, `gone` the ids of calls that have left.
    """

    def __init__(self, view: ContextView) -> None:
        self.ours, self.theirs = blake2b(digest_size=16), blake2b(digest_size=16)
        self.found: list[SentMessage] = []
        self.waiting, self.gone = list(view.inserted), set[str]()
        self.changed = self.noticed = False  # the second one: a notice has taken the place of a result
        self.begun = False  # an answer has come
        self.alone = self.lost = False  # the message before has left; the system messages that follow it leave as well

    def copied(self) -> "_Progress":
        made = copy(self)
        made.ours, made.theirs, made.found = self.ours.copy(), self.theirs.copy(), self.found.copy()
        made.waiting, made.gone = self.waiting.copy(), self.gone.copy()
        return made

    def add(self, one: SentMessage, view: ContextView) -> None:
        self.found.append(one)
        if view.binds:
            self.ours.update(one.message.key.encode())


class EditMemory:
    """The edit of the newest request of a transcript, up to some place. As long as the context shows the same, the same
    messages are edited alike: the edit of the next request goes on from there."""

    def __init__(self) -> None:
        self._sent: Sequence[SentMessage] = ()
        self._known: Sequence[KnownMessage] = ()
        self._shown: object = None
        self._bound: dict[str, str | None] = {}
        self._begun: tuple[int, _Progress] | None = None

    def begin(
        self, sent: Sequence[SentMessage], known: Sequence[KnownMessage], view: ContextView
    ) -> tuple[int, _Progress, int]:
        """Return the first place to edit, the edit of what precedes it, and the place up to which this request and the
        one before are edited alike. The last message is never among these: some rules apply to it only."""
        shown = None if view.key is None else (view.key, view.evicted, view.inserted, view.binds)
        alike = shown is not None and shown == self._shown
        alike = alike and all(view.bound.get(key) == prefix for key, prefix in self._bound.items())
        same = min(common_length(sent, self._sent), common_length(known, self._known), len(sent) - 1) if alike else 0
        self._sent, self._known, self._shown = sent, known, shown
        if self._begun is not None and self._begun[0] > same:
            self._begun = None
        first, done = self._begun or (0, _Progress(view))
        return first, done.copied(), same

    def note(self, place: int, progress: _Progress, view: ContextView) -> None:
        """Remember the edit of what precedes a place."""
        if progress.noticed:  # a notice depends on more than the messages
            self._begun = None
            return
        self._begun = place, progress.copied()
        keys = [each.message.key for each in self._sent[:place] if each.message.thinks] if view.binds else []
        self._bound = {key: view.bound.get(key) for key in keys}


def edited(
    dialect: PieceForm,
    sent: Sequence[SentMessage],
    known: Sequence[KnownMessage],
    view: ContextView,
    memory: EditMemory | None = None,
) -> EditedMessages:
    """Return the messages to send instead of `sent`; `known` has an entry for each. `memory` holds the edit of
    the transcript's previous request. Raises MisplacedError."""
    memory = memory or EditMemory()
    first, done, same = memory.begin(sent, known, view)
    for place in range(first, len(sent)):
        if first < place == same:
            memory.note(place, done, view)
        _edit(dialect, sent[place], known[place], view, done, last=place == len(sent) - 1)
    found = done.found
    if _first_role(found) == "assistant" and _first_role(sent) != "assistant":
        found.insert(0, SentMessage(dialect.opening, dialect.read(dialect.opening)))
        done.changed = True
    if done.changed:
        found = dialect.joined(found)
        _check(dialect, sent, found)
    prefix = done.ours.hexdigest() if view.binds else ""
    return EditedMessages([raw for raw, *_ in found], prefix, done.changed)


def without_own(
    dialect: PieceForm, sent: Sequence[SentMessage], known: Sequence[KnownMessage], view: ContextView
) -> EditedMessages:
    """Return the messages to send if the operations cannot be applied to them: everything but commands to Foldmark and
    its replies. If not even these can be left out, the client's own messages."""
    everything = view._replace(shows=lambda event_id: event_id != LOCAL, evicted={}, inserted=(), key=None)
    try:
        return edited(dialect, sent, known, everything)._replace(whole=True)
    except MisplacedError:
        return EditedMessages([each.raw for each in sent], "", changed=False, whole=True)


def _edit(
    dialect: PieceForm, one: SentMessage, known: KnownMessage, view: ContextView, done: _Progress, *, last: bool
) -> None:
    """Edit the next message; `last` is True for the last one."""
    raw, message, _ = one
    if done.waiting and not message.results:  # nothing may stand between a call and its result
        begins = next((view.stands.get(id, id) for id in known.ids if id > 0), None)
        # Messages that come after all others are put before the prompt being asked.
        while done.waiting and (last if begins is None else done.waiting[0][0] < begins):
            inserted = done.waiting.pop(0)[1]
            done.add(SentMessage(inserted, dialect.read(inserted)), view)
            done.changed = True
    follows = message.role == "system" and done.lost and message.blocks
    leaves = follows and not any(id > 0 and view.shows(id) for id in known.ids)
    kept = None if leaves else _kept(dialect, raw, message, known, view)
    if message.role != "system":
        done.lost = kept is None and done.begun and LOCAL not in known.ids
        done.begun = done.begun or message.role == "assistant"
    if kept is not None and not done.gone.isdisjoint(message.results):
        kept = _noticed(dialect, kept, message, known, view, done.gone)
        done.noticed = True
    elif kept is None:
        done.gone.update(message.calls)
    elif message.calls:
        done.gone.difference_update(message.calls)  # some providers reuse ids in later exchanges
    if kept is not None and message.thinks and view.binds:
        bound_to = view.bound.get(message.key, done.theirs.hexdigest())
        if bound_to != done.ours.hexdigest():
            kept = _without_thinking(dialect, kept)
    if view.binds:
        done.theirs.update(message.key.encode())
    if kept is raw:
        done.add(one._replace(alone=True) if done.alone else one, view)
        done.alone = False
        return
    done.changed, done.alone = True, kept is None
    own = dialect.mark_of(raw)
    if kept is not None and own is not None and dialect.mark_of(kept) is None:
        kept = dialect.marked(kept, own) or kept  # it was on a block that has left
    if kept is not None:
        done.add(SentMessage(kept, dialect.read(kept)), view)
    elif own is not None:
        _move(dialect, done.found, own)


def _first_role(messages: Sequence[SentMessage]) -> str:
    return next((message.role for _, message, *_ in messages if message.role != "system"), "")


def _check(dialect: PieceForm, sent: Sequence[SentMessage], found: Sequence[SentMessage]) -> None:
    """Raise MisplacedError for edited messages that the provider refuses although it takes those that the client has
    sent. If it may refuse these, too, the edit is not the cause, and holds."""
    own = set(map(id, sent))
    try:
        dialect.check([each.message for each in found])
        for each in found:
            if id(each) not in own:
                dialect.check_blocks(each.message)
    except MisplacedError:
        if any(each.alone for each in sent):
            sent = dialect.joined(sent)
        try:
            dialect.check([each.message for each in sent])
            for each in sent:
                dialect.check_blocks(each.message)
        except MisplacedError:
            return
        raise


def _kept(
    dialect: PieceForm, raw: bytes, message: ClientMessage, known: KnownMessage, view: ContextView
) -> bytes | None:
    """Return a message without the blocks that have left; the same object if nothing changes, None if nothing stays."""
    ids, shows, evicted = known.ids, view.shows, view.evicted
    if not any(id and (id in evicted or not shows(id)) for id in ids):
        return raw
    if len(message.blocks) != len(ids):
        found = placed(dialect, message, ids)
        if found is None and any(id and shows(id) for id in ids):
            return raw
        # If all have left, the first event stands for what the message says.
        said = next(id for id in ids if id)
        ids = found or tuple(0 if part is None else said for part in dialect.parts(message))
    if all(id and not shows(id) for id in ids):
        return None
    blocks = dialect.blocks(raw)
    stays = dialect.kept(blocks, [not id or shows(id) for id in ids])
    left = [
        dialect.placeholder(decoded(block), evicted[id]) if id in evicted else block
        for id, block, stay in zip(ids, blocks, stays, strict=True)
        if stay
    ]
    return dialect.rewritten(raw, left) if left else None


def _noticed(
    dialect: PieceForm, kept: bytes, message: ClientMessage, known: KnownMessage, view: ContextView, gone: set[str]
) -> bytes | None:
    """Return a message with a notice in place of each result whose call has left."""
    ids = dict(zip(message.results, [id for id in known.ids if id], strict=False))
    left = []
    for block in dialect.blocks(kept):
        found = decoded(block)
        call = dialect.result_of(found)
        if call is None or call not in gone:
            left.append(block)
        elif text := view.notice(call, ids.get(call, 0)):
            left.append(dialect.notice(found, text))
    return dialect.rewritten(kept, left) if left else None


def _without_thinking(dialect: PieceForm, kept: bytes) -> bytes | None:
    left = [block for block in dialect.blocks(kept) if not dialect.is_thinking(decoded(block))]
    return dialect.rewritten(kept, left) if left else None


def _move(dialect: PieceForm, found: list[SentMessage], mark: bytes) -> None:
    """Put a cache mark on the newest message that can carry it."""
    for at in range(len(found) - 1, -1, -1):
        raw, message, *_ = found[at]
        if dialect.mark_of(raw) is not None:
            return
        if (made := dialect.marked(raw, mark)) is not None:
            found[at] = SentMessage(made, message)
            return
