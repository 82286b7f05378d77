"""Random sessions of a coding agent in a real terminal, with commands to Foldmark at random moments (SPEC 5.7).

A seed decides everything: the prompts, the moments, and what is typed in them. A `RandomClient` holds the differences
between the clients. The model behind it measures each request as a provider does, and waits in an answer, or in a tool
of its client, until something has been typed.
"""

import json
import random
import re
import shlex
import shutil
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from difflib import unified_diff
from pathlib import Path
from threading import Event as Signal
from typing import Any, ClassVar, NamedTuple

import pytest
from plan import Answer, Part, Reply, Say, Use, Wire
from screens import BIN, Screen
from server import Loopback

import foldmark
from foldmark.core.assembly.caching import common_length
from foldmark.core.codec import stored_time
from foldmark.core.events import Event
from foldmark.core.request import Usage
from foldmark.log import Agent, Log
from patience import LIMIT

POINTS, SHARE = 3, 5
"""A receipt may be wrong by less than these points of the cached prompt, and percent of the tokens."""

PER_TOKEN = 3.1
"""Bytes that the provider counts as a token."""

TOPICS = ("kites", "canals", "lanterns", "orchards")

EDITS = ("mark", "drop", "evict", "rewind", "undo", "filter", "summary")
"""The kinds of operations that a person can take back."""

MARKERS = (
    *("Checkpoint 'M", "left the context", "came back into the context", "taken back.", "Context of this session: "),
    *("takes a turn out", "leaves a placeholder", "there is no command :", "nothing was done for", "Rewound to 'M"),
    *("The context holds no results", "foldmark: ", "of the cached prompt holds", "A prompt that begins with ::"),
)
"""Texts of Foldmark that no provider may see."""


class Typed(NamedTuple):
    """A command: its line, the moment in which it was typed, and a pattern for its reply."""

    line: str
    moment: str
    shown: str


class Measured(NamedTuple):
    """A request of the conversation: when it came, its tokens, those that the cache held, and those up to the newest
    answer."""

    time: float
    tokens: int
    read: int
    answered: int


class Receipt(NamedTuple):
    """A receipt, and what the provider measured: the percentage of the cached prompt that holds, and tokens."""

    line: str
    percent: float
    tokens: int
    measured_percent: float
    measured: Measured

    @property
    def points(self) -> float:
        """The difference of the percentages."""
        return abs(self.percent - self.measured_percent)

    @property
    def share(self) -> float:
        """The difference of the tokens, in percent. The receipt does not know the prompt that follows it."""
        most, least = self.measured.tokens, self.measured.answered
        return 100 * max(self.tokens - most, least - self.tokens, 0) / most


class RandomClient(ABC):
    """A client. `moments` are the moments in which commands are typed to it. Where it `compares`, receipts are compared
    with what the provider measured."""

    program: ClassVar[str]
    resumes: ClassVar[tuple[str, ...]]
    ready: ClassVar[str] = "? for shortcuts"
    moments: ClassVar[tuple[str, ...]]
    compares: ClassVar[bool] = True

    @abstractmethod
    def wire(self, held: Callable[[Iterator[bytes]], Iterator[bytes]]) -> Wire:
        """Return the protocol of a new provider, whose streams pass through `held`."""

    @abstractmethod
    def begin(self, folder: Path, upstream: str, *more: str, live: bool) -> Screen:
        """Start the client in a terminal."""

    @abstractmethod
    def messages(self, body: Any) -> list[Any]:
        """Return the messages of a request as the provider got them."""

    @abstractmethod
    def is_aside(self, body: Any) -> bool:
        """Return True for a request for anything but the next step."""

    @abstractmethod
    def counted(self, body: Any) -> bytes:
        """Return the bytes of a request that the provider caches and counts."""

    @abstractmethod
    def answered(self, body: Any) -> Any:
        """Return a request up to its newest answer."""

    @abstractmethod
    def run(self, number: int, part: str, command: str, *, background: bool = False) -> Use:
        """Return a call that runs a shell command."""

    def thinking(self, body: Any) -> Sequence[Part]:
        """Return the thinking before the answer to a request."""
        return ()

    def leave(self) -> None:  # noqa: B027 - most providers take the session without Foldmark, too
        """Get ready for the client without Foldmark."""

    def delegate(self, number: int) -> Use:
        """Return a call that starts a sub-agent in the background, with the prompt `SUBTASK s{number}.`."""
        raise NotImplementedError

    @abstractmethod
    def said(self, folder: Path) -> list[str]:
        """Return every text of an answer in the client's own file of its newest session, in order."""

    @abstractmethod
    def pieces(self, body: Any) -> list[tuple[str, str]]:
        """Return the role and the content of everything that a person, the model or a tool said in a request, each text
        by itself, without what the client generates anew in each run."""

    def divided(self, pieces: Iterable[tuple[str, str]], lines: Container[str]) -> Iterable[tuple[str, str]]:
        """Return pieces that a client without Foldmark sent, without commands and replies that it joined to others."""
        return pieces

    def settle(self, screen: Screen) -> None:  # noqa: B027 - most clients send every prompt
        """Wait until a prompt that is typed now is certain to be sent."""

    def set_mode(self, screen: Screen, *, plans: bool) -> None:
        """Enter the client's plan mode, or leave it."""
        raise NotImplementedError


class Play:
    """The model. Prompts and calls have numbers: the answer to `SAY kites p7.` begins with `a7.`.

    WAIT holds the request, HOLD the stream of the answer, and USE a tool. BACKGROUND starts a tool in the background,
    DELEGATE a sub-agent, and both work on after the answer. `begun` and `released` have the numbers."""

    def __init__(self, client: RandomClient, folder: Path) -> None:
        self.client, self.folder = client, folder
        self.prompts: dict[int, str] = {}
        self.topic = ""  # of the newest :forget
        self.measured: list[Measured] = []
        self._begun: dict[str, Signal] = {}
        self._released: dict[str, Signal] = {}
        self._kept: list[bytes] = []

    def begun(self, name: str) -> Signal:
        return self._begun.setdefault(name, Signal())

    def released(self, name: str) -> Signal:
        return self._released.setdefault(name, Signal())

    def release(self) -> None:
        """Let everything go on."""
        for each in self._released.values():
            each.set()
        for number in self.prompts:
            (self.folder / f"go{number}").touch()

    def wait(self, name: str) -> None:
        self.begun(name).set()
        self.released(name).wait(LIMIT)

    def held(self, events: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the events of a stream, and wait behind the text `b7.`."""
        for event in events:
            yield event
            if b"delta" in event and (found := re.search(rb'"b(\d+)\. ', event)):
                self.wait(f"HOLD {int(found[1])}")

    def shell(self, number: int) -> str:
        """Return a shell command that waits until it is released."""
        folder = shlex.quote(str(self.folder))
        return f"touch {folder}/begun{number}; while [ ! -e {folder}/go{number} ]; do sleep 0.1; done; echo done"

    def __call__(self, body: Any) -> Answer:
        client = self.client
        text = json.dumps(client.messages(body), ensure_ascii=False)
        if client.is_aside(body):
            return Reply((Say((self._aside(text),)),))
        found = [int(each) for each in re.findall(r"\bp(\d+)\.", text)]
        if not found:
            sub = re.search(r"SUBTASK s(\d+)\.", text)
            if sub:
                self.wait(f"DELEGATE {sub[1]}")
            return Reply((Say(("The task is done.",)),))
        usage = self._measure(client.counted(body), client.counted(client.answered(body)))
        number = found[-1]
        reply = self._answer(number, self.prompts[number].split()[0], text)
        return reply._replace(parts=(*client.thinking(body), *reply.parts), usage=usage)

    def _answer(self, number: int, verb: str, text: str) -> Reply:
        said = f"a{number}. " + "Words of an answer. " * (number * 13 % 40)
        called = f"_{number}x" in text
        if verb == "WAIT":
            self.wait(f"WAIT {number}")
        if verb == "HOLD":
            return Reply((Say((f"b{number}. ", "It goes on. ", said)),))
        if called or verb in ("SAY", "WAIT"):
            return Reply((Say((said,)),))
        run = self.client.run
        calls = {
            "RUN": lambda: [
                run(number, f"x{at}", f"seq {100 * at + number * 37 % 400}") for at in range(number % 2 + 1)
            ],
            "USE": lambda: [run(number, "x", self.shell(number))],
            "BACKGROUND": lambda: [run(number, "x", self.shell(number), background=True)],
            "DELEGATE": lambda: [self.client.delegate(number)],
        }
        return Reply((Say(("Let me see.",)), *calls[verb]()), stop="calls")

    def _aside(self, text: str) -> str:
        if self.topic and self.topic in text:
            return json.dumps([int(id) for id in re.findall(rf"(\d+)[^\d\n]{{0,60}}[A-Z]+ {self.topic}", text)])
        return "All of it was said. It is a title."

    def _measure(self, text: bytes, answered: bytes) -> Usage:
        read = max((common_length(text, each) for each in self._kept), default=0)
        tokens, read = round(len(text) / PER_TOKEN), round(read / PER_TOKEN)
        self._kept.append(text)
        self.measured.append(Measured(time.time(), tokens, read, round(len(answered) / PER_TOKEN)))
        return Usage(fresh=0, cache_read=read, cache_write=tokens - read, output=20)


class RandomSession:
    """A session with a seed. `typed` are all commands, `refused` those whose reply is a refusal, `receipts` compares
    receipts with what the provider measured."""

    def __init__(self, client: RandomClient, folder: Path, seed: int) -> None:
        self.client, self.folder, self.random = client, folder, random.Random(seed)
        folder.mkdir()
        self.play = Play(client, folder)
        self.upstream = Loopback(client.wire(self.play.held), self.play)
        self.typed: list[Typed] = []
        self.refused: list[Typed] = []
        self.receipts: list[Receipt] = []
        self._open: list[Typed] = []  # without a checked reply
        self._seen = 0
        self._marks: list[str] = []
        self._moment = "idle"
        self._kinds = _COMMANDS

    def __enter__(self) -> "RandomSession":
        self.upstream.__enter__()
        self.begin(live=True)
        return self

    def __exit__(self, *error: Any) -> None:
        if error[0] is not None:
            bodies = [self.client.messages(each.body) for each in self.upstream.requests]
            (self.folder / "requests.json").write_text(json.dumps(bodies, indent=1))
        self.play.release()
        self.screen.close()
        self.upstream.__exit__(None, None, None)

    def begin(self, *more: str, live: bool) -> None:
        self.screen = self.client.begin(self.folder, self.upstream.url, *more, live=live)
        self.screen.wait_for_prompt(self.client.ready)

    def figures(self) -> dict[str, Any]:
        """Return what the session has shown, for a report."""
        return {
            "commands": len(self.typed),
            "moments": dict(Counter(each.moment for each in self.typed)),
            "refused": [each.line for each in self.refused],
            "requests": len(self.upstream.requests),
            "receipts": len(self.receipts),
            "points": max((each.points for each in self.receipts), default=0),
            "percent": max((each.share for each in self.receipts), default=0),
        }

    # Prompts

    def prompt(self, verb: str) -> int:
        """Type a prompt, and return its number."""
        number = len(self.play.prompts) + 1
        text = f"{verb} {self.random.choice(TOPICS)} p{number}."
        self.play.prompts[number] = text
        self.screen.queue(text)
        return number

    def say(self, verb: str = "SAY") -> None:
        """Type a prompt, and wait for the end of its answer."""
        self.client.settle(self.screen)
        number = self.prompt(verb)
        self.until(lambda: self._answered(number), f"the answer a{number}.")

    def _answered(self, number: int) -> bool:
        return any(f"a{number}. " in each or each.strip() == f"a{number}." for each in self.client.said(self.folder))

    def until(self, there: Callable[[], bool], wanted: str) -> None:
        end = time.monotonic() + LIMIT
        while not there():
            assert self.upstream.refusals == [], self.upstream.refusals
            assert time.monotonic() < end, f"{wanted} did not come:\n{self.screen.text}"
            time.sleep(0.1)

    def work(self, verb: str, act: Callable[[], None], *, interrupts: bool = False) -> None:
        """Let the agent work, act meanwhile, and let it go on, or interrupt it."""
        number = self.prompt(verb)
        if verb == "USE":
            self.until((self.folder / f"begun{number}").exists, "the tool")
        else:
            assert self.play.begun(f"{verb} {number}").wait(LIMIT), self.screen.text
        act()
        if interrupts:
            self.screen.press("Escape")
            self.replied()  # a key that follows at once would be another one
        (self.folder / f"go{number}").touch()
        self.play.released(f"{verb} {number}").set()

    # Commands

    def command(self) -> None:
        """Type a random command."""
        made = None
        while made is None:
            number = len(self.typed) + 1
            made = self.random.choice(self._kinds)(self, number) or self.random.choice(_COMMANDS)(self, number)
        self.enter(*made)

    def enter(self, line: str, shown: str) -> None:
        """Type a command whose reply matches a pattern."""
        typed = Typed(f":{line}", self._moment, shown)
        self.typed.append(typed)
        self._open.append(typed)
        self.screen.queue(typed.line)

    def idle(self) -> None:
        self.command()
        self.replied()

    def two(self) -> None:
        self.command()
        self.command()

    def some(self) -> None:
        """Type commands and prompts while the agent works."""
        for _ in range(self.random.choice((1, 1, 2, 2, 3))):
            if self.random.random() < 0.3:
                self.prompt("SAY")
            self.command()
        if self.random.random() < 0.3:
            self.prompt("SAY")

    def step(self, moment: str = "") -> None:
        """Play a moment, by default a random one, and check all replies."""
        self._moment = moment = moment or self.random.choice(self.client.moments)
        if moment == "idle":
            self.idle()
        elif moment == "two in a row":
            self.two()
        elif moment == "preview":
            self.preview()
        elif moment == "plan":
            self.client.set_mode(self.screen, plans=True)
            self.idle()
            self.work("HOLD", self.some)
            self.say()
            self.client.set_mode(self.screen, plans=False)
        elif moment == "interruption":
            self.work(self.random.choice(("HOLD", "USE", "WAIT")), self.some, interrupts=True)
        elif moment in ("background", "sub-agent"):
            self.beside("BACKGROUND" if moment == "background" else "DELEGATE")
        else:
            self.work({"request": "WAIT", "stream": "HOLD", "tool": "USE"}[moment], self.some)
        self.check()

    def beside(self, verb: str) -> None:
        """Start something in the background, and type commands while it runs."""
        number = self.prompt(verb)
        self.until(lambda: self._answered(number), f"the answer a{number}.")
        self.idle()
        self.random.choice((self.two, lambda: self.work("HOLD", self.some), lambda: self.say("RUN")))()
        self.say()
        self.idle()
        (self.folder / f"go{number}").touch()
        self.play.released(f"{verb} {number}").set()

    def preview(self) -> None:
        """Ask for a preview, and answer it."""
        self.play.topic = self.random.choice(TOPICS)
        self.enter(f"forget {self.play.topic}", r"Nothing matches “|Nothing has changed yet\.")
        self.replied()
        if "Nothing matches" not in self.replies():
            answer, shown = self.random.choice((("yes", _DONE), ("no", r"Nothing was forgotten"), ("only 1", _DONE)))
            self.enter(answer, shown)
            self.replied()

    # Checks

    def replies(self) -> str:
        """Return the texts of the answers since the last check."""
        return "\n\n".join(self.client.said(self.folder)[self._seen :])

    def replied(self) -> None:
        """Wait until there is a reply to each command."""
        self.until(lambda: self._matched() is not None, f"a reply to {self._open}")

    def _matched(self) -> list[Typed] | None:
        """Return the commands that were refused; None unless each has a reply. No reply may come twice."""
        replies, refused = self.replies(), list[Typed]()
        for shown, times in Counter(each.shown for each in self._open).items():
            replies, found = re.subn(shown, "", replies)
            assert found <= times, (shown, found, self.replies())
            refused += [each for each in self._open if each.shown == shown][found:]
        others = len(re.findall(r"(?m)^foldmark: ", replies))
        assert others <= len(refused), (self._open, self.replies())
        return refused if others == len(refused) else None

    def check(self) -> None:
        """Type a prompt, and check that each command since the last check has exactly one reply."""
        self.say(self.random.choice(("SAY", "SAY", "RUN")))
        refused = self._matched()
        assert refused is not None, (self._open, self.replies(), self.screen.text)
        self.refused += refused
        self._open.clear()
        self._seen = len(self.client.said(self.folder))

    # The log

    @property
    def log(self) -> Log:
        return foldmark.open(self.folder / "live.db", settings={})

    def own(self, log: Log) -> Agent:
        (agent,) = [each for each in log.agents() if each.name]
        return agent

    def ids(self, kind: str) -> list[int]:
        """Return the turns, or the results, of the context."""
        with self.log as log:
            agent = self.own(log)
            if kind == "turn":
                return [turn.id for turn in agent.context().turns(1000) if turn.id is not None]
            return [each.id for each in agent.context().messages if each.kind == kind]

    def events(self) -> list[Event]:
        with self.log as log:
            agent, found = self.own(log), list[Event]()
            while page := agent.events(found[-1].id if found else 0, 1000):
                found += page
        return found

    def operations(self) -> list[Event]:
        """Return a person's operations that are not taken back, oldest first."""
        events = self.events()
        back = {(each.data or {}).get("target") for each in events if each.kind == "restore"}
        edits = [each for each in events if each.kind in EDITS and each.actor == "human"]
        return [each for each in edits if each.id not in back]

    def compare(self) -> Iterator[Receipt]:
        """Yield the receipt of each operation, with what the provider measured in the requests before it and after it.
        Where another operation comes between, its receipt is the one that holds."""
        said = "\n".join(self.client.said(self.folder))
        edits = [each for each in self.events() if each.kind in (*EDITS, "restore") and each.actor == "human"]
        times = [stored_time(each.created_at).timestamp() for each in edits]
        for edit, when, following in zip(edits, times, (*times[1:], float("inf")), strict=True):
            found = re.search(rf"event {edit.id} · (?:[^\n]* · )?(\d+)% of the cached prompt holds · {_CONTEXT}", said)
            before = [each for each in self.play.measured if each.time < when]
            after = [each for each in self.play.measured if each.time >= when]
            if found and before and after and after[0].time < following:
                share = min(100.0, 100 * after[0].read / before[-1].tokens)
                held, tokens = (edit.data or {})["receipt"]["cached_prefix"], int(found[2].replace(",", ""))
                assert held["percent"] == int(found[1])
                yield Receipt(f"{edit.kind} {edit.id}", 100 * held["kept"] / held["of"], tokens, share, after[0])

    def play_all(self, steps: int) -> None:
        for verb in ("SAY", "RUN", "SAY", "RUN"):
            self.say(verb)
        for _ in range(steps):
            self.step()

    def play_each(self, kind: int) -> None:
        """Type commands of one kind beside everything that the client tells the model by itself."""
        for verb in ("SAY", "RUN", "SAY", "RUN"):
            self.say(verb)
        self._kinds = _COMMANDS[:1]  # a mark, and something to restore
        self.idle()
        self.work("HOLD", self.some)
        self._kinds = (_KINDS[kind],)
        for moment in ("plan", "background", "sub-agent", "interruption"):
            self.step(moment)

    def check_all(self) -> None:
        """Take all operations back, and check what the log holds and what the provider got."""
        self.restore_all()
        recorded = [each for each in self.events() if each.kind in (*EDITS, "restore") and each.actor == "human"]
        done = Counter(each for each in self.typed if re.match(_RECORDS, each.line)) - Counter(self.refused)
        assert len([each for each in recorded if each.kind != "filter"]) == done.total(), (recorded, done)
        self.receipts = list(self.compare())
        wrong = [each for each in self.receipts if each.points >= POINTS or each.share >= SHARE]
        assert wrong == [] or not self.client.compares, wrong
        self.again(live=True)
        self.say()
        asked = [each for each in self.upstream.requests if not self.client.is_aside(each.body)]
        live = self.client.pieces(asked[-1].body)
        assert self.upstream.refusals == []
        for request in self.upstream.requests:
            sent = json.dumps(self.client.messages(request.body), ensure_ascii=False)
            assert [each for each in MARKERS if each in sent] == []
            leaked = [each.line for each in self.typed if re.search(re.escape(each.line) + r"(?!\w)", sent)]
            assert leaked == [], f"{leaked} in a request that ends with {sent[-2000:]}"
        self.client.leave()
        self.again(live=False)
        self.say()
        asked = [each for each in self.upstream.requests if not self.client.is_aside(each.body)]
        lines = {each.line for each in self.typed}
        divided = self.client.divided(self.client.pieces(asked[-1].body), lines)
        plain = [piece for piece in divided if not _is_local(*piece, lines)]
        for systems in (False, True):  # these may stand elsewhere
            mine, theirs = ([repr(each) for each in said if (each[0] == "system") == systems] for said in (live, plain))
            difference = "\n".join(unified_diff(theirs[: len(mine)], mine, "plain", "live", lineterm="", n=2))
            if difference:
                raise AssertionError(difference)

    def again(self, *, live: bool) -> None:
        """End the client, and continue its session."""
        self.screen.close()
        self.begin(*self.client.resumes, live=live)

    def restore_all(self) -> None:
        """Take all operations back, the newest first."""
        self._moment = "end"
        for operation in self.operations()[::-1]:
            self.enter(f"restore {operation.id}", rf"Operation {operation.id} taken back\.")
            self.replied()
        self.check()


def play(client: RandomClient, tmp_path: Path, seed: int, steps: int, kind: int | None = None) -> None:
    """Play a session with the real client, check it, and write its figures: random steps, or commands of one `kind`.
    Skipped where the client is not there."""
    if not (BIN / client.program).exists() or shutil.which("tmux") is None:
        pytest.skip(f"{client.program} or tmux is not there: `make clients` installs the one")
    with RandomSession(client, tmp_path / "session", seed) as session:
        if kind is None:
            session.play_all(steps)
        else:
            session.play_each(kind)
        session.check_all()
        (tmp_path / "figures.json").write_text(json.dumps(session.figures()))


_DONE = r"Done\. \d+ messages?"
_RECORDS = r":(mark|drop|evict|clear|rewind|undo|summarize|restore) "
"""Commands that record an operation, unless they are refused. Answers to a preview record filters."""
_CONTEXT = r"context [^(\n]*\(~([\d,]+) tokens\)"


def _is_local(role: str, text: str, lines: set[str]) -> bool:
    """Return True for a command, or a reply to one: everything that neither a person says nor the model."""
    if role == "assistant":
        return not re.match(r"[ab]\d+\.|Let me see\.|The task is done\.", text)
    return text in lines


def _edit(name: str, arguments: Callable[[RandomSession], str | None]) -> Callable[[RandomSession, int], Any]:
    def make(session: RandomSession, number: int) -> tuple[str, str] | None:
        found = arguments(session)
        if found is None:
            return None
        shown = rf"event \d+ ·[^\n]* reason: r{number}\b"
        return f"{name} {found} -- r{number}".replace("  ", " "), shown

    return make


def _mark(session: RandomSession, number: int) -> tuple[str, str]:
    session._marks.append(f"M{number}")
    return f"mark M{number}", rf"Checkpoint 'M{number}' (?:created|moved)"


def _choice(found: Sequence[Any], session: RandomSession) -> Any:
    return session.random.choice(found) if found else None


def _turn(session: RandomSession) -> Any:
    return _choice(session.ids("turn")[-8:], session)


def _result(session: RandomSession) -> Any:
    return _choice(session.ids("tool_result")[-6:], session)


def _recent_mark(session: RandomSession) -> Any:
    return session._marks[-1] if session._marks else None


def _operation(session: RandomSession, number: int) -> tuple[str, str] | None:
    open_ones = session.operations()
    if not open_ones:
        return None
    id = session.random.choice(open_ones).id
    return f"restore {id}", rf"Operation {id} taken back\."


def _showing(line: str, shown: str) -> Callable[[RandomSession, int], tuple[str, str]]:
    return lambda session, number: (line.format(number), shown.format(number))


_COMMANDS: tuple[Callable[[RandomSession, int], Any], ...] = (
    *[_mark] * 3,
    *[_edit("drop", _turn)] * 5,
    *[_edit("evict", _result)] * 4,
    *[_edit("clear", _recent_mark)] * 2,
    _edit("rewind", lambda session: ""),
    _edit("undo", lambda session: ""),
    *[_operation] * 4,
    _showing("context", r"Context of this session: "),
    _showing("results 2", r":evict ID leaves a placeholder|The context holds no results"),
    _showing("turns 2", r":drop ID takes a turn out|The context is empty\."),
    _showing("recall heron{0}", r"No messages match: heron{0}\b"),
    _showing("help", r"A prompt that begins with ::"),
    _showing("clera M{0}", r"foldmark: there is no command :clera M{0}[^\n]*did you mean :clear M{0}\?[^\n]*"),
    _showing("mrak X{0}", r"foldmark: there is no command :mrak X{0}[^\n]*did you mean :mark X{0}\?[^\n]*"),
    _showing("pin {0}", r"foldmark: :pin: a live session has no window[^\n]*"),
)

_KINDS = tuple(dict.fromkeys(_COMMANDS))
KINDS = range(len(_KINDS))
"""The kinds of commands, by number."""
