"""`ClientDialect`: everything that a gateway has to know about one wire [SPEC 5.7]. Pure.

It differs from `foldmark.dialects`, which builds Foldmark's own requests. Here the bytes belong to the client: a body
is cut at its messages, and every message that is kept keeps its bytes. Messages are compared by keys, which leave out
anything that varies between requests without changing the message. An answer and its echo in the next request have the
same key.
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import msgspec
from msgspec import Raw, Struct

from foldmark.core.events import Event
from foldmark.core.request import Request, Stopped, Usage
from foldmark.cost.spending import lifetime_of
from foldmark.live.live_agent import AnyProgram, LiveAgent
from foldmark.overlay.pieces import ClientMessage, PieceForm, SentMessage, decoded, key_of, text_of
from foldmark.tokens.models import Model
from foldmark.wires.parts import Part, TextMessage

if TYPE_CHECKING:
    from foldmark.live.clients.weaving import Weaver


class ClientBody(Struct):
    """The members of a body that are read. `messages` is the list, under its name on this wire."""

    messages: Raw


class RequestHead(Struct, frozen=True):
    """The fields of a request other than its messages. `session` and `agent` are the client's ids of its session and of
    a sub-agent in it, `folder` is the path of its working folder, empty if it names none. `tools` is True if the model
    may call tools. `aside` is True if the request is not part of the conversation. `system` is the system prompt as
    received."""

    model: str
    stream: bool
    tools: bool
    session: str = ""
    agent: str = ""
    aside: bool = False
    system: Any = ""
    folder: str = ""


class TypedPrompt(NamedTuple):
    """A prompt: the number of its block in the message, and its text. `queued` is True if it is certain that it was
    typed while the agent worked, `joined` if the client may have joined several prompts to this text."""

    block: int
    text: str
    queued: bool = False
    joined: bool = False


class ClientRequest(Struct, frozen=True):
    """A request: its target (path and query), its body, and its messages. They follow `body[begin]`, which is the
    bracket, or the comma after items that are no part of the conversation; their list ends before `end`. `texts` are
    those that the body may hold, of the ones that the reader looks for."""

    dialect: "ClientDialect"
    target: str
    body: bytes
    begin: int
    end: int
    sent: tuple[SentMessage, ...]
    head: RequestHead
    texts: frozenset[bytes] = frozenset()

    @property
    def messages(self) -> list[ClientMessage]:
        """The messages without their bytes."""
        return [each.message for each in self.sent]

    def lifetime(self, model_named: Callable[[str], Model]) -> float | None:
        """Return the seconds for which the provider keeps this request in its cache; None if that is not known."""
        model = model_named(f"{self.dialect.provider}/{self.head.model}")
        return lifetime_of(model, self.dialect.cache_asked(self))

    def with_messages(self, messages: Iterable[bytes]) -> bytes:
        """Return the body with these messages instead of its own."""
        held, before = b",".join(messages), self.body[: self.begin + 1]
        return b"".join((before if held else before.rstrip(b","), held, b"]", self.body[self.end :]))


class ClientAnswer(NamedTuple):
    """A provider's complete answer: its key, the content of each block, its model, its usage and how it ended. `blocks`
    are those that the client will repeat, as far as a dialect knows them."""

    key: str
    parts: list[Part | None]
    model: str
    usage: Usage | None
    stopped: Stopped | None
    blocks: tuple[bytes, ...] = ()


class ClientDialect(PieceForm):
    """One wire, as clients speak it. `name` is its name, `dialect` the dialect of the events, `provider` the provider
    of the models. `path` matches the path of the endpoint that answers. `body` is the type of a body. `credentials` are
    the headers that Foldmark's own questions copy from the client.

    `agent` is the client: it knows what in its requests is its own. By default, that is any of the known agents."""

    name: ClassVar[str]
    dialect: ClassVar[str]
    provider: ClassVar[str]
    path: ClassVar[re.Pattern[str]]
    body: ClassVar[type[ClientBody]] = ClientBody
    credentials: ClassVar[tuple[str, ...]]
    steers: ClassVar[bool] = False
    """True if the client aborts an answer when a prompt is typed, and asks for the rest together with that prompt."""
    long_caches: ClassVar[tuple[tuple[bytes, re.Pattern[bytes], float], ...]] = ()
    """A text and a pattern in a body that asks the provider for a longer cache, and the seconds for which it lives."""
    moves_systems: ClassVar[bool] = False
    """True if system messages may stand only behind a user's messages, so that `joined` moves them there."""
    passing: ClassVar[tuple[str, ...]] = ()
    """Members of a block that no model reads, and that a provider does not count."""
    groups: ClassVar[bool] = False
    """True if a message may consist of several adjacent items in the list of messages; see `grouped`."""

    def __init__(self) -> None:
        self.agent: LiveAgent = AnyProgram(wire=self.name)

    def spoken_by(self, agent: LiveAgent) -> Self:
        """Return this wire as an agent speaks it."""
        made = copy(self)
        made.agent = agent
        return made

    # Requests

    def reads(self, path: str) -> bool:
        """Return True if this is the path of the endpoint that answers."""
        return self.path.fullmatch(path) is not None

    @abstractmethod
    def head(self, target: str, headers: Mapping[str, str], body: Any) -> RequestHead:
        """Return the fields of a request other than its messages, without those that its agent names (`origin`).
        `body` has the type `self.body`."""

    def leading(self, items: Sequence[bytes]) -> int:
        """Return the number of first list items that are no part of the conversation, such as a system prompt, and
        always stay."""
        return 0

    def grouped(self, items: Sequence[bytes]) -> Iterable[int]:
        """Yield the number of adjacent list items that make up each message."""
        return (1 for _ in items)

    def messages_in(self, items: Sequence[bytes]) -> list[bytes]:
        """Return the messages that list items make up."""
        rest = iter(items)
        return [b",".join(islice(rest, many)) for many in self.grouped(items)]

    def told(self, message: ClientMessage) -> list[TextMessage | None]:
        """Return what the client itself wrote in each block of a user's message, as the log records it; None for any
        other block."""
        if message.role != "user":
            return [None for _ in message.blocks]
        parts = zip(self.parts(message), map(decoded, message.blocks), strict=True)
        return [_told(block) if part is None else None for part, block in parts]

    @abstractmethod
    def prompts(self, message: ClientMessage) -> list[TypedPrompt]:
        """Return the texts that a person typed in a message of a user, of a tool or of the system, in order."""

    def separated(self, sent: Sequence[SentMessage], is_command: Callable[[str], bool]) -> Sequence[SentMessage]:
        """Return messages in which each prompt that the client has joined with a command is a block of its own."""
        return sent

    def parted(self, sent: SentMessage, is_command: Callable[[str], bool]) -> SentMessage:
        """Return a user's message in which each prompt of a `joined` text is a block of its own, if a command is among
        them. Its key stays."""
        return sent

    def unwoven(self, sent: SentMessage, said: Collection[str]) -> SentMessage:
        """Return an answer as the client repeats it, in which a text of Foldmark's own from `said` is a block of its
        own. Its key stays."""
        return sent

    def cache_asked(self, request: "ClientRequest") -> float:
        """Return the seconds for which a request asks to be kept in the provider's cache; 0 if it does not."""
        wanted = [each for each in self.long_caches if each[0] in request.texts]
        return max((seconds for _, asks, seconds in wanted if asks.search(request.body)), default=0.0)

    def is_compacted(self, message: ClientMessage) -> bool:
        """Return True for the summary with which the client goes on after a compaction."""
        return message.role == "user" and any(self.agent.is_summary(text_of(block)) for block in message.blocks)

    def is_interruption(self, part: Part | None) -> bool:
        """Return True for the text that the client sends in place of an answer that a person interrupted."""
        if not isinstance(part, TextMessage) or part.kind == "assistant":
            return False
        return self.agent.is_interruption(part.text)

    def opens(self, part: TextMessage) -> bool:
        """Return True if a user's text opens a new turn even though no answer ended the previous one."""
        return True

    def is_reply(self, message: ClientMessage) -> bool:
        """Return True for an answer that is certainly Foldmark's own reply to a command, wherever it is repeated."""
        return bool(message.blocks) and all(map(self.is_own, message.blocks))

    def is_own(self, block: bytes) -> bool:
        """Return True for a block of an answer that is certainly Foldmark's own text."""
        return False

    def binds(self, model: str) -> bool:
        """Return True if a model binds its thinking to what precedes it."""
        return False

    @abstractmethod
    def messages_of(self, events: Iterable[Event]) -> list[bytes]:
        """Return, as messages of their own and without thinking, events that the client no longer sends."""

    # Answers

    @abstractmethod
    def answer(self, body: bytes, *, streamed: bool) -> ClientAnswer | None:
        """Read an answer; return None if it is incomplete."""

    def continued(self, before: ClientMessage, answer: ClientAnswer) -> str | None:
        """Return the key of the message in which the client will repeat an answer joined to the message before it, for
        example after an answer broke off and was requested again; None if the answer will be a separate message."""
        return None

    def answer_key(self, blocks: Iterable[bytes]) -> str:
        """Return the key of an answer with these blocks; empty if thinking is no part of keys on this wire."""
        return ""

    def without_own(self, block: bytes) -> bytes:
        """Return a block of a user's message without texts of the client in it that it may send elsewhere."""
        return block

    def key_without(self, message: ClientMessage, blocks: Iterable[bytes]) -> str:
        """Return the key of a user's message with these blocks only; empty if the client never moves its own texts."""
        return ""

    @abstractmethod
    def reply(self, text: str, request: ClientRequest) -> tuple[str, bytes]:
        """Return the media type and the body of an answer that says `text`, in the form that `answer` reads."""

    @abstractmethod
    def weaver(self, text: str, request: ClientRequest, *, streamed: bool) -> "Weaver":
        """Return what puts a text of Foldmark's own before a provider's answer. It is told apart from that later."""

    def woven(self, answer: ClientAnswer, said: str) -> ClientAnswer | None:
        """Return an answer whose first block is the text that a `weaver` put before it; None if it has none."""
        return answer

    @abstractmethod
    def question(self, asked: Request, request: ClientRequest) -> tuple[str, bytes]:
        """Return the target and the body of Foldmark's own question to the model of a client's session."""


def _told(block: Mapping[str, Any]) -> TextMessage | None:
    text = block.get("text")
    return TextMessage("client", text) if isinstance(text, str) and text.strip() else None


def contents_in(content: bytes, kind: str = "text") -> tuple[bytes, ...]:
    """Return the content of a message as blocks; if it is a text, as one block of a `kind`."""
    if content[:1] == b'"':
        return (b'{"type":"%b","text":%b}' % (kind.encode(), content),)
    return tuple(map(bytes, msgspec.json.decode(content, type=list[Raw])))


def meaning_key(role: str, meaning: list[Any]) -> str:
    """Return the key of a message with this meaning, regardless of the order of members and the form of numbers that a
    client writes."""
    return key_of(role, [msgspec.json.encode(_plain(meaning), order="sorted")])


def _plain(value: Any) -> Any:
    """Return a value with whole numbers written as in JavaScript (1.0 becomes 1)."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
