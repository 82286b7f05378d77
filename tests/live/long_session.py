"""One long session of a coding agent in a real terminal, with every operation along the way (SPEC 5.7).

The same script runs twice in the same folder: without Foldmark, and through the gateway with commands that are all
undone at the end. The provider then gets the same messages, before a compaction and after one, and refuses nothing on
the way: it checks each request as the real one does. A `LongClient` holds the differences between the clients.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from plan import Answer, Reply, Say, Stalled, Think, Use, Wire
from screens import Screen
from server import Loopback

import foldmark
from foldmark.core.events import Event
from foldmark.log import Agent, Log

SIGN = ":"
BEGUN = "It begins."
"""The visible part of an answer that is interrupted. If interrupted earlier, some clients take the prompt back."""

DROPPED = "After the interruption 9"
"""The prompt that is dropped before the compaction."""


class LongClient(ABC):
    """A client, and a model behind it whose answers depend only on the newest prompt.

    `resumes` are the arguments that continue its newest session. The screen shows `ready` once it accepts a prompt,
    `interrupted` after an interruption, and `compacted` after a compaction. Without Foldmark, a client that is
    `refused_alone` sends requests that the provider refuses.
    """

    program: ClassVar[str]
    resumes: ClassVar[tuple[str, ...]]
    ready = "? for shortcuts"
    interrupted: ClassVar[str]
    compacted: ClassVar[str]
    refused_alone: ClassVar[bool] = False

    def __init__(self, work: Path) -> None:
        self.work = work
        self.wire = self.speaks()

    @abstractmethod
    def speaks(self) -> Wire:
        """Return the protocol of a new provider."""

    @abstractmethod
    def begin(self, folder: Path, upstream: str, *more: str, live: bool) -> Screen:
        """Start the client in a terminal."""

    @abstractmethod
    def messages(self, body: Any) -> list[Any]:
        """Return the messages of a request without the parts that the client generates anew in each run."""

    @abstractmethod
    def newest(self, body: Any) -> tuple[str, list[str]]:
        """Return the newest typed prompt and the tool results after it."""

    @abstractmethod
    def aside(self, body: Any) -> str | None:
        """Return the answer to a request for anything but the next step; None for a request for the next step."""

    @abstractmethod
    def thought(self, body: Any) -> tuple[Think, ...]:
        """Return the model's thinking before its answer."""

    @abstractmethod
    def calls(self, prompt: str, results: Sequence[str]) -> list[Use]:
        """Return the next calls for a prompt that begins with READ, RUN or DELEGATE, given the results so far."""

    def __call__(self, body: Any) -> Answer:
        if (aside := self.aside(body)) is not None:
            return Reply((Say((aside,)),))
        prompt, results = self.newest(body)
        if prompt.startswith("SUBTASK"):
            return Reply((Say(("The task is done.",)),))
        if prompt.startswith("WAIT"):
            return Stalled((Say((f"{BEGUN}\n\nAnd then ",)),))
        thoughts = self.thought(body)
        if calls := self.calls(prompt, results):
            return Reply((*thoughts, *(() if results else (Say(("Let me see.",)),)), *calls), stop="calls")
        return Reply((*thoughts, Say((f"{'Done' if results else 'Answer'}: {prompt}",))))


def forgotten(said: str) -> str | None:
    """Return the answer to a text that asks which messages match; None for any other text."""
    if "the caching experiment" not in said:
        return None
    return json.dumps([int(id) for id in re.findall(r"(\d+)[^\d\n]{0,60}About caching", said)])


class LongSession:
    """A client in a terminal. `do` types a command to Foldmark, in a live session only. `typed` counts the lines."""

    def __init__(self, client: LongClient, folder: Path, *, live: bool) -> None:
        self.client, self.folder, self.live = client, folder, live
        self.upstream = Loopback(client.wire, client)
        self.typed = 0

    def __enter__(self) -> "LongSession":
        self.upstream.__enter__()
        self.folder.mkdir()
        try:
            self.begin()
        except BaseException:
            self.__exit__()
            raise
        for name in "ab":
            (self.folder / "work" / f"{name}.txt").write_text(f"{name}\n" * 50)
        return self

    def __exit__(self, *error: Any) -> None:
        self.screen.close()
        self.upstream.__exit__(None, None, None)

    def begin(self, *more: str) -> None:
        self.screen = self.client.begin(self.folder, self.upstream.url, *more, live=self.live)
        self.screen.wait_for_prompt(self.client.ready)

    def again(self) -> None:
        """End the client, and continue its newest session."""
        self.screen.close()
        self.begin(*self.client.resumes)

    def say(self, prompt: str, wanted: str | None = None) -> None:
        self.typed += 1
        answer = f"Answer: {prompt}" if prompt.split()[0] not in ("READ", "RUN", "DELEGATE") else f"Done: {prompt}"
        self.screen.type(prompt, wanted or answer)

    def do(self, command: str, wanted: str) -> None:
        if self.live:
            self.typed += 1
            self.screen.type(SIGN + command, wanted)

    def interrupt(self, prompt: str) -> None:
        """Send a prompt, and interrupt the answer while it streams."""
        self.say(prompt, BEGUN)
        self.screen.press("Escape")
        self.screen.wait(self.client.interrupted, prompt)

    def compact(self) -> None:
        self.typed += 1
        self.screen.type("/compact", self.client.compacted, stays=False)

    def asked(self) -> list[Any]:
        """Return the messages of the conversation's newest request."""
        conversation = [each.body for each in self.upstream.asked if self.client.aside(each.body) is None]
        return self.client.messages(conversation[-1])

    @property
    def log(self) -> Log:
        return foldmark.open(self.folder / "live.db", settings={})

    def find(self, prompt: str, kind: str = "user") -> int:
        """Return the id of the event of a kind in a prompt's turn; 0 without Foldmark."""
        if not self.live:
            return 0
        with self.log as log:
            messages = list(conversation(log).context().messages)
        turn = next(each.turn_id for each in messages if each.content == prompt)
        return next(each.id for each in messages if each.turn_id == turn and each.kind == kind)

    def operations(self) -> list[Event]:
        """Return a person's operations that are not undone, oldest first."""
        kinds = ("evict", "drop", "filter", "rewind", "undo")
        with self.log as log:
            events = conversation(log).events(0, 1000)
        back = {each.data["target"] for each in events if each.kind == "restore" and each.data is not None}
        return [each for each in events if each.kind in kinds and each.actor == "human" and each.id not in back]

    def restore(self, operations: Sequence[Event]) -> None:
        for operation in operations:
            self.do(f"restore {operation.id}", f"Operation {operation.id} taken back.")

    def restore_first(self) -> None:
        if self.live:
            self.restore(self.operations()[:1])

    def sends(self, text: str, *, sent: bool) -> None:
        """In a live session, assert that the newest request contains a text, or that it does not."""
        if self.live:
            assert (text in json.dumps(self.asked())) == sent, text


def conversation(log: Log) -> Agent:
    """Return the session's own conversation, not a sub-agent's."""
    (agent,) = [each for each in log.agents() if each.name]
    return agent


def play(session: LongSession) -> None:
    """Play the script, one step per line."""
    say, do, find = session.say, session.do, session.find
    say("Hello 1")
    do("context", "nothing taken out")
    say("READ both 2")
    do("mark EARLY", "Checkpoint 'EARLY' created.")
    say("RUN it 30")
    say("About caching 4")
    do(f"drop {find('READ both 2')} -- not needed", "left the context")
    say("After the drop 5")
    session.sends("READ both 2", sent=False)
    say("DELEGATE it 6")
    do(f"evict {find('RUN it 30', 'tool_result')}", "placeholder")
    say("After the eviction 7")
    session.sends("[Evicted: ", sent=True)
    session.restore_first()
    say("After the restoring 8")
    session.sends("READ both 2", sent=True)
    do(f"drop {find('READ both 2')} -- not needed after all", "left the context")
    session.interrupt("WAIT for it 8")
    say(DROPPED)
    do("forget the caching experiment", "caching")
    do("yes", "left the context")
    say("After the forgetting 10")
    session.sends("About caching", sent=False)
    do("mark LATE", "Checkpoint 'LATE' created.")
    say("RUN it 11")
    say("A wrong turn 12")
    do("clear LATE", "Rewound to 'LATE'.")
    say("After the rewind 13")
    session.sends("A wrong turn 12", sent=False)
    do("undo", "left the context")
    say("After the undo 14")
    session.again()
    say("After the continuation 15")
    say("READ both 16")
    do("operations 8", "not needed after all")


def end(session: LongSession) -> None:
    """Play the end of the script, with a compaction."""
    session.do(f"drop {session.find(DROPPED)}", "left the context")
    session.say("After the second drop 18")
    session.compact()
    session.say("After the compaction 19")
    session.do("operations 4", "the client no longer sends it")


class Asked(NamedTuple):
    """The messages that the provider got without Foldmark and with it."""

    without: list[Any]
    live: list[Any]


def run(client: type[LongClient], folder: Path) -> Iterator[Asked]:
    """Play the script without Foldmark and with it. Yield the messages that the provider got once all was undone,
    before a compaction and after one."""
    place = folder / "session"
    with LongSession(client(place / "work"), place, live=False) as plain:
        play(plain)
        plain.say("The end 17")
        before = plain.asked()
        end(plain)
        plain.say("The end 20")
        after = plain.asked()
        assert plain.upstream.refusals == [] or client.refused_alone
    place.rename(folder / "plain")
    with LongSession(client(place / "work"), place, live=True) as session:
        play(session)
        operations = session.operations()
        assert len(operations) == 5
        session.restore(operations[::-1])
        session.say("The end 17")
        yield Asked(before, session.asked())
        end(session)
        session.sends(DROPPED, sent=False)
        session.restore_first()
        session.say("The end 20")
        yield Asked(after, session.asked())
        assert session.upstream.refusals == []
        assert session.typed >= 30
        sent = json.dumps([session.client.messages(each.body) for each in session.upstream.requests])
        assert not re.search(r":(mark|context|drop|evict|forget|yes|clear|undo|restore|operations)\b", sent)
