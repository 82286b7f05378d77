"""Scenarios that every provider has to pass, written once: answers, failures, requests and whole conversations.

The expected answer follows from its parts (`talking.shape_of`), so a scenario states only what is special. The texts
that a request must hold have the form and the order of `Wire.texts`; a part of a text is enough.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from plan import Answer, Broken, Fail, Http, Reply, Say, Think, Use
from talking import Tools

from foldmark import Agent, CommandError
from foldmark.core.assembly.prompt import EMPTY, GO_ON, OMITTED
from foldmark.core.assembly.view import HIDDEN_RESULT
from foldmark.core.assembly.wire import NO_OUTPUT, NO_RESULT, tool_name
from foldmark.core.request import Usage
from sampled import DEEP

Texts = tuple[tuple[str, str], ...]

EVERY = ("anthropic", "openai", "openai_responses", "gemini", "gemini_gca")
THINKING = ("anthropic", "openai_responses", "gemini", "gemini_gca")
"""The providers whose protocol shows a model's thinking."""
TEXT_ARGUMENTS = ("anthropic", "openai", "openai_responses")
"""The providers that stream arguments as text, which need not be JSON."""

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
PDF = "application/pdf"
PLAN = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK"}}
LINK = {"type": "image", "source": {"type": "url", "url": "https://example.org/cat.png"}}

ODD = (
    "naïve 日本語 🐈‍⬛ 👩‍👩‍👧‍👦 a\u2028b\u2029c\x85d\x1ce\ufefff \0 "
    " \r\n\n data: {}\n\nevent: x\r\r \\u00e9 \\ud83d \x7f"
)
_PIECE = 1 if DEEP else 9  # each piece has an envelope of some 200 bytes, which is cut byte by byte as well
ODD_PIECES = [ODD[at : at + _PIECE] for at in range(0, len(ODD), _PIECE)]
LONG_NAME = "mcp.files/read-" + "all." * 21 + "x"
assert len(LONG_NAME) == 100


# Answers


class Answered(NamedTuple):
    """An answer that must be received in full. `spelling` is the way its JSON is written: `escaped`, `raw`, or as the
    wire does it; `split` is the number of bytes in each chunk."""

    name: str
    reply: Reply
    split: int | None = None
    spelling: str = ""
    providers: tuple[str, ...] = EVERY


COST = Usage(fresh=100, cache_read=40, output=20)


def says(*pieces: str, stop: str = "end", usage: Usage = COST) -> Reply:
    return Reply((Say(pieces),), stop, usage)


def calls(*uses: Use, before: str = "") -> Reply:
    return Reply((*((Say((before,)),) if before else ()), *uses), "calls")


def _deep(levels: int) -> dict[str, Any]:
    inner: dict[str, Any] = {"end": [1, "é", None, True, 0.5]}
    for _ in range(levels):
        inner = {"in": [inner]}
    return inner


HUGE = {"text": "0123456789 é\n\"'\\" * 12_500, "list": list(range(1000))}

ANSWERS = (
    Answered("many pieces", says("Hel", "lo", "", " ", "there", "\n", "", "now.")),
    Answered("one letter at a time", says(*"A somewhat longer text, letter by letter.")),
    Answered("a long text", says(*("line of text\n" * 20 for _ in range(100)))),
    Answered("odd characters", says(*ODD)),
    Answered("odd characters, escaped, byte by byte", says(*ODD_PIECES), split=1, spelling="escaped"),
    Answered("odd characters, raw, byte by byte", says(*ODD_PIECES), split=1, spelling="raw"),
    Answered("odd characters in one piece, raw", says(ODD), split=7, spelling="raw"),
    Answered("nothing", Reply(())),
    Answered("an empty text", says("")),
    Answered("only white space", says(" \n")),
    Answered("text, then a call", calls(Use("c1", "look", {"at": "a"}), before="I look.")),
    Answered("a call", calls(Use("c1", "look", {"at": "a"}))),
    Answered("a call byte by byte", calls(Use("c1", "look", {"at": ODD}), before="é"), split=1, spelling="raw"),
    Answered("three calls", calls(*(Use(f"c{n}", name, {"n": n}) for n, name in enumerate(("look", "seek", "find"))))),
    Answered("the same call twice", calls(Use("c1", "look", {"at": "a"}), Use("c2", "look", {"at": "a"}))),
    Answered("no arguments", calls(Use("c1", "look", {}))),
    Answered("odd arguments", calls(Use("c1", "look", {ODD: ODD, "": None, "n": [0.1, -5, 1e100, 2**53, False]}))),
    Answered("deep arguments", calls(Use("c1", "look", _deep(40)))),
    Answered("huge arguments", calls(Use("c1", "look", HUGE))),
    Answered("arguments that break off", calls(Use("c1", "look", {}, raw='{"at": "a')), providers=TEXT_ARGUMENTS),
    Answered("arguments that are no JSON", calls(Use("c1", "look", {}, raw="at=a")), providers=TEXT_ARGUMENTS),
    Answered("arguments that are no object", calls(Use("c1", "look", {}, raw="[1, 2]")), providers=TEXT_ARGUMENTS),
    Answered("thinking, then text", Reply((Think("Let me think.", "c2lnbmVk"), Say(("So ", "it is."))))),
    Answered(
        "thinking, then a call",
        Reply((Think("I look.", "c2lnbmVk"), Use("c1", "look", {"at": "a"}, signature="c2lnbmVk")), "calls"),
    ),
    Answered("much thinking", Reply((Think("Hm. " * 5000, "c2ln" * 500), Say(("So.",))))),
    Answered("cut by length", says("It begins", stop="length")),
    Answered("cut by length before anything", Reply((), "length")),
    Answered("refused", Reply((), "refused")),
    Answered("refused after some text", says("I can", stop="refused")),
    Answered("no cache", says("Hi.", usage=Usage(fresh=17, output=3))),
    Answered("all from the cache", says("Hi.", usage=Usage(cache_read=4096, output=1))),
    Answered("large numbers", says("Hi.", usage=Usage(1_000_003, 900_001, 0, 128_000))),
    Answered("a cache written", says("Hi.", usage=Usage(11, 7, 5, 3)), providers=("anthropic",)),
)


# Failures


class Failed(NamedTuple):
    """An answer that ends in a ProviderError of this kind, after its pieces so far."""

    name: str
    answer: Answer
    kind: str
    retry_after: float | None = None


PART = (Say(("It be", "gan")),)

FAILURES = (
    Failed("a refused key", Fail("key", 401), "key"),
    Failed("a wrong request", Fail("request", 400), "request"),
    Failed("an unknown model", Fail("request", 404), "request"),
    Failed("too many requests", Fail("rate", 429, 7), "rate", 7.0),
    Failed("too many requests, for long", Fail("rate", 429, 3600), "rate", 3600.0),
    Failed("too many requests, for who knows how long", Fail("rate", 429), "rate"),
    Failed("an error of the server", Fail("busy", 500), "busy"),
    Failed("out of service", Fail("busy", 503), "busy"),
    Failed("overloaded", Fail("busy", 529), "busy"),
    Failed("too long", Fail("overflow", tokens=250_001, limit=200_000), "overflow"),
    Failed("cut before anything was said", Broken(()), "network"),
    Failed("cut within a text", Broken(PART), "network"),
    Failed("cut after a thought", Broken((Think("Hm.", "c2ln"),)), "network"),
)

_STREAM = "text/event-stream"
_PAGE = b"<!DOCTYPE html><html><body><h1>Sign in to the network</h1></body></html>"

NONSENSE: dict[str, tuple[Http, tuple[str, ...]]] = {
    "a page": (Http(200, {"content-type": "text/html"}, _PAGE), ("answer", "network")),
    "an empty page": (Http(200, {}, b""), ("answer", "network")),
    "an empty object": (Http(200, {"content-type": "application/json"}, b"{}"), ("answer", "network")),
    "nothing at all": (Http(200, {"content-type": "application/json"}, b"null"), ("answer", "network")),
    "an empty stream": (Http(200, {"content-type": _STREAM}, b""), ("answer", "network")),
    "a stream that only ends": (Http(200, {"content-type": _STREAM}, b"data: [DONE]\n\n"), ("answer", "network")),
    "broken JSON": (Http(200, {"content-type": _STREAM}, b'data: {"type": \n\n'), ("answer", "network")),
    "a number": (Http(200, {"content-type": _STREAM}, b"data: 7\n\n"), ("answer", "network")),
    "a list of nothing": (Http(200, {"content-type": _STREAM}, b"data: [[], null]\n\n"), ("answer", "network")),
    "no UTF-8": (Http(200, {"content-type": _STREAM}, b'data: {"a": "\xff\xfe"}\n\n'), ("answer", "network")),
    "deep JSON": (Http(200, {"content-type": _STREAM}, b"data: " + b"[" * 100_000 + b"\n\n"), ("answer", "network")),
    "a broken compression": (
        Http(200, {"content-type": _STREAM, "content-encoding": "gzip"}, b"data: {}\n\n"),
        ("answer", "network"),
    ),
    "a refusal as a page": (Http(403, {"content-type": "text/html"}, _PAGE), ("key",)),
    "a wrong address": (Http(404, {"content-type": "text/html"}, _PAGE), ("request",)),
    "a proxy's failure": (Http(502, {"content-type": "text/html"}, _PAGE * 10_000), ("busy",)),
    "a limit without words": (Http(429, {}, b""), ("rate",)),
    "a limit that asks for odd times": (Http(429, {"retry-after": "soon, nan"}, b"{}"), ("rate",)),
    "an error that is none": (Http(400, {"content-type": "application/json"}, b'{"error": [7]}'), ("request",)),
    "an error that is a text": (Http(500, {"content-type": "application/json"}, b'"no"'), ("busy",)),
    "a teapot": (Http(418, {}, b"short and stout"), ("request",)),
}
"""Answers that no provider should give, by name, with the kinds of errors that fit."""


# Requests


class Sent(NamedTuple):
    """A log whose request is accepted and holds the `wanted` texts and none of those in `never`."""

    name: str
    build: Callable[[Agent], object]
    wanted: Texts
    never: tuple[str, ...] = ()


def _layers(agent: Agent) -> None:
    agent.do("/system edit Be brief. Réponds!")
    agent.append("system", "From an import.")
    agent.record("scratchpad", "to do: all")
    agent.append("user", "Hi")
    agent.record("state", "Goal: greet")


def _images(agent: Agent) -> None:
    agent.append("user", "What is it?", data={"blocks": [IMAGE, LINK]})


def _image_alone(agent: Agent) -> None:
    agent.append("user", "", data={"blocks": [IMAGE]})


def _image_in_a_result(agent: Agent) -> None:
    agent.append("user", "Look.")
    for call in ("c1", "c2"):
        agent.append_tool_call("look", {}, call_id=call)
    agent.append_tool_result("c1", "a picture", data={"blocks": [IMAGE]})
    agent.append_tool_result("c2", "", data={"blocks": [IMAGE]})


def _documents(agent: Agent) -> None:
    agent.append("user", "Read both.", data={"blocks": [PLAN]})
    agent.append_tool_call("look", {}, call_id="c1")
    agent.append_tool_result("c1", "a plan", data={"blocks": [PLAN]})


def _unfinished(agent: Agent) -> None:
    agent.append("user", "Look at both.")
    agent.append_tool_call("look", {"at": "a"}, call_id="c1")
    agent.append_tool_call("look", {"at": "b"}, call_id="c2")
    agent.append_tool_result("c2", "B")
    agent.append_tool_result("nobody", "An orphan.")
    agent.append("assistant", "I was about", interrupted=True)


def _foreign(agent: Agent) -> None:
    own = agent.request().dialect
    agent.append("user", "Look.")
    for dialect in ("anthropic", "openai", "gemini", "gemini_gca"):
        if dialect.partition("_")[0] != own.partition("_")[0]:
            agent.append("assistant", f"I am {dialect}.", dialect=dialect)
            agent.append_tool_call("foreign_look", {}, call_id="c1", dialect=dialect)
            agent.append_tool_result("c1", "FOREIGN RESULT", dialect=dialect)
            agent.append("tool", "FOREIGN MESSAGE", dialect=dialect)
    agent.append_tool_call("own_look", {}, call_id="c1", dialect=own)
    agent.append_tool_result("c1", "OWN RESULT", dialect=own)
    agent.append("assistant", "Seen.")


def _mixed(agent: Agent) -> None:
    """Append a call of this dialect whose result was written in another."""
    own = agent.request().dialect
    agent.append("user", "Look.")
    agent.append_tool_call("look", {}, call_id="c1", dialect=own)
    agent.append_tool_result("c1", "FOREIGN RESULT", dialect="openai" if own == "anthropic" else "anthropic")


def _not_isolated(agent: Agent) -> None:
    _foreign(agent)
    agent.do("/config set isolation=off")


def _odd_names(agent: Agent) -> None:
    agent.append("user", "Look.")
    for call_id, name in (
        ("", ""),
        ("call:1/ü", "mcp.server/tool"),
        ("c" * 200, LONG_NAME),
        ("c1", "2nd"),
        ("c1", "ü"),
    ):
        agent.append_tool_call(name, {"at": "a"}, call_id=call_id)
    agent.append_tool_result("c1", "first", is_error=True)
    agent.append_tool_result("", "empty id")
    agent.append_tool_result("c" * 200, "")


def _odd_arguments(agent: Agent) -> None:
    agent.append("user", "Look.")
    for number, args in enumerate(([1], "text", None, _deep(40), _deep(80), {"at": ODD}, HUGE)):
        agent.append_tool_call("look", args, call_id=f"c{number}")
        agent.append_tool_result(f"c{number}", f"result {number}")


def _odd_order(agent: Agent) -> None:
    agent.append("assistant", "I begin.")
    agent.append("assistant", "I go on.")
    agent.append("tool", "A tool speaks.")
    agent.append("user", ODD)
    agent.append("user", " ")
    agent.append("assistant", "I end.")


def _long_result(agent: Agent) -> None:
    agent.append("user", "Look.")
    agent.append_tool_call("look", {}, call_id="c1")
    agent.append_tool_result("c1", "x" * 20_000 + "THE END")


def _blocks_of_earlier_turns(agent: Agent) -> None:
    own = agent.request().dialect
    block = {"type": "thinking", "thinking": "EARLIER THOUGHT", "signature": "RUFSTElFUg=="}
    agent.append("user", "First.")
    agent.append("assistant", "One.", data={"blocks": [block]}, dialect=own)
    agent.end_turn()
    agent.append("user", "Second.")


def _blocks_of_others(agent: Agent) -> None:
    other = "openai" if agent.request().dialect == "anthropic" else "anthropic"
    block = {"type": "thinking", "thinking": "FOREIGN THOUGHT", "signature": "RUFSTElFUg=="}
    agent.append("user", "Look.")
    agent.append("assistant", "I look.", data={"blocks": [block]}, dialect=other)
    agent.append_tool_call("look", {}, call_id="c1")
    agent.append_tool_result("c1", "seen")


def _thinking(level: str) -> Callable[[Agent], None]:
    def build(agent: Agent) -> None:
        agent.do(f"/config set thinking={level}")
        agent.append("user", "Hi")
        agent.append("assistant", "I look.")
        agent.append_tool_call("look", {}, call_id="c1", dialect=agent.request().dialect)
        agent.append_tool_result("c1", "seen", dialect=agent.request().dialect)

    return build


REQUESTS = (
    Sent("a text", lambda agent: agent.append("user", ODD), (("user", ODD),)),
    Sent(
        "system prompt, guidelines, state and scratchpad",
        _layers,
        (
            ("system", "Be brief. Réponds!"),
            ("user", "Hi"),
        ),
    ),
    Sent("images", _images, (("image", "image/png"), ("image", "example.org/cat.png"))),
    Sent("the text of images", _images, (("user", "What is it?"),)),
    Sent("an image alone", _image_alone, (("image", "image/png"),)),
    Sent("an image in a result", _image_in_a_result, (("result", "a picture"), ("image", "image/png"))),
    Sent("documents", _documents, (("document", PDF), ("call", "look"))),
    Sent("a document in a result", _documents, (("result", "a plan"), ("document", PDF))),
    Sent("a call without result", _unfinished, (("call", "look"), ("result", NO_RESULT), ("assistant", "I was about"))),
    Sent("foreign tool messages", _foreign, (("call", "own_look"), ("result", "OWN RESULT")), ("FOREIGN", "foreign_")),
    Sent("a foreign result of an own call", _mixed, (("call", "look"), ("result", HIDDEN_RESULT)), ("FOREIGN",)),
    Sent("no isolation", _not_isolated, (("call", "foreign_look"), ("result", "FOREIGN RESULT"), ("call", "own_look"))),
    Sent("odd call ids and names", _odd_names, (("result", "empty id"), ("result", NO_OUTPUT), ("result", "first"))),
    Sent("odd arguments", _odd_arguments, tuple(("result", f"result {number}") for number in range(7))),
    Sent("an odd order", _odd_order, (("user", OMITTED), ("assistant", "I begin."), ("user", ODD), ("user", GO_ON))),
    Sent("an empty conversation", lambda agent: None, (("user", EMPTY),)),
    Sent("a long result", _long_result, (("result", "[TRUNCATED."),), ("THE END",)),
    Sent("kept blocks of an earlier turn", _blocks_of_earlier_turns, (("assistant", "One."),), ("EARLIER", "RUFSTElF")),
    Sent("kept blocks of another provider", _blocks_of_others, (("assistant", "I look."),), ("FOREIGN", "RUFSTElF")),
    *(
        Sent(f"thinking {level}", _thinking(level), (("user", "Hi"), ("call", "look"), ("result", "seen")))
        for level in ("default", "off", "low", "medium", "high")
    ),
)


# Conversations


class Talk(NamedTuple):
    """Turns of a conversation, each a text and the answers to its requests; the texts that each request must hold, in
    order, and must not hold; and the final messages."""

    name: str
    turns: tuple[tuple[str, tuple[Answer, ...]], ...]
    sent: tuple[Texts, ...]
    messages: Texts
    never: Mapping[int, tuple[str, ...]] = MappingProxyType({})
    providers: tuple[str, ...] = EVERY


def _fails(args: Any) -> str:
    raise CommandError("there is no such file")


def _echo(args: Any) -> str:
    return json.dumps(args, ensure_ascii=False)


TOOLS: Tools = {"look": lambda args: f"seen {args['at']}", "fails": _fails, "echo": _echo, LONG_NAME: _echo}

_LOOK = Use("c1", "look", {"at": "a"}, signature="c2lnbmF0dXJl")
_LOOKED: Texts = (("tool_call", '{"at":"a"}'), ("tool_result", "seen a"))
_ODD_ARGS = {"é": {"deep": [[["👩‍👩‍👧‍👦"]]]}, "\u2028": None}

TALKS = (
    Talk(
        "two plain turns",
        (("One?", (says("Fir", "st."),)), ("Two?", (says("Second."),))),
        ((("user", "One?"),), (("user", "One?"), ("assistant", "First."), ("user", "Two?"))),
        (("user", "One?"), ("assistant", "First."), ("user", "Two?"), ("assistant", "Second.")),
    ),
    Talk(
        "a call",
        (("See a.", (calls(_LOOK, before="I look."), says("It is there."))),),
        ((("user", "See a."),), (("user", "See a."), ("assistant", "I look."), ("call", "look"), ("result", "seen a"))),
        (("user", "See a."), ("assistant", "I look."), *_LOOKED, ("assistant", "It is there.")),
    ),
    Talk(
        "three calls at once, and one more",
        (
            (
                "See all.",
                (
                    calls(*(Use(f"c{at}", "look", {"at": at}, signature="c2ln") for at in "abc")),
                    calls(Use("c4", "look", {"at": "d"}, signature="c2ln")),
                    says("All there."),
                ),
            ),
        ),
        (
            (("user", "See all."),),
            (("result", "seen a"), ("result", "seen b"), ("result", "seen c")),
            (("result", "seen a"), ("result", "seen b"), ("result", "seen c"), ("call", "look"), ("result", "seen d")),
        ),
        (
            ("user", "See all."),
            *(("tool_call", f'{{"at":"{at}"}}') for at in "abc"),
            *(("tool_result", f"seen {at}") for at in "abc"),
            ("tool_call", '{"at":"d"}'),
            ("tool_result", "seen d"),
            ("assistant", "All there."),
        ),
    ),
    Talk(
        "the same call twice at once, with one id",
        (("See a.", (calls(_LOOK, _LOOK), says("Twice."))),),
        ((), (("call", "look"), ("call", "look"), ("result", "seen a"), ("result", "seen a"))),
        (
            ("user", "See a."),
            *([("tool_call", '{"at":"a"}')] * 2),
            *([("tool_result", "seen a")] * 2),
            ("assistant", "Twice."),
        ),
    ),
    Talk(
        "no arguments, and odd ones",
        (("Go.", (calls(Use("c1", "echo", {}), Use("c2", "echo", _ODD_ARGS)), says("Done."))),),
        ((), (("result", "{}"), ("result", _echo(_ODD_ARGS)))),
        (
            ("user", "Go."),
            ("tool_call", "{}"),
            ("tool_call", json.dumps(_ODD_ARGS, ensure_ascii=False, separators=(",", ":"))),
            ("tool_result", "{}"),
            ("tool_result", _echo(_ODD_ARGS)),
            ("assistant", "Done."),
        ),
    ),
    Talk(
        "arguments that break off",
        (("Mark.", (calls(Use("c1", "slash", {}, raw='{"command": "ma')), says("Sorry."))),),
        ((), (("call", "slash"), ("result", "Error: slash takes an object with command, args"))),
        (
            ("user", "Mark."),
            ("tool_call", '"{\\"command\\": \\"ma"'),
            ("tool_result", "Error: slash takes an object with command, args"),
            ("assistant", "Sorry."),
        ),
        providers=TEXT_ARGUMENTS,
    ),
    Talk(
        "a tool that fails, and one that there is not",
        (("Go.", (calls(Use("c1", "fails", {}), Use("c2", "nowhere", {})), says("It failed."))),),
        ((), (("result", "Error: there is no such file"), ("result", "Error: there is no tool 'nowhere'"))),
        (
            ("user", "Go."),
            *([("tool_call", "{}")] * 2),
            ("tool_result", "Error: there is no such file"),
            ("tool_result", "Error: there is no tool 'nowhere'"),
            ("assistant", "It failed."),
        ),
    ),
    Talk(
        "thinking before a call",
        (
            (
                "See a.",
                (
                    Reply((Think("Better look.", "c2lnbmF0dXJl"), Say(("I look.",)), _LOOK), "calls"),
                    Reply((Think("Look again.", "YWdhaW4="), Use("c2", "look", {"at": "a"}, "YWdhaW4=")), "calls"),
                    says("It is there."),
                ),
            ),
            ("Sure?", (says("Yes."),)),
        ),
        (
            (("user", "See a."),),
            (("thinking", "c2lnbmF0dXJl"), ("call", "look"), ("result", "seen a")),
            (("thinking", "c2lnbmF0dXJl"), ("result", "seen a"), ("thinking", "YWdhaW4="), ("result", "seen a")),
            (("assistant", "I look."), ("result", "seen a"), ("assistant", "It is there."), ("user", "Sure?")),
        ),
        (
            ("user", "See a."),
            ("assistant", "I look."),
            *_LOOKED,
            *_LOOKED,
            ("assistant", "It is there."),
            ("user", "Sure?"),
            ("assistant", "Yes."),
        ),
        {3: ("Better look.", "Look again.")},
    ),
    Talk(
        "cut by length, and refused",
        (("Long.", (says("It beg", stop="length"),)), ("Bad.", (Reply((), "refused"),)), ("Hi.", (says("Hello."),))),
        ((), (("assistant", "It beg"),), (("user", "Bad."), ("user", "Hi."))),
        (("user", "Long."), ("assistant", "It beg"), ("user", "Bad."), ("user", "Hi."), ("assistant", "Hello.")),
    ),
    Talk(
        "a name that the wire cannot carry",
        (("Go.", (calls(Use("c1", tool_name(LONG_NAME), {"at": "a"})), says("Done."))),),
        ((), (("result", '{"at": "a"}'),)),
        (("user", "Go."), ("tool_call", '{"at":"a"}'), ("tool_result", '{"at": "a"}'), ("assistant", "Done.")),
    ),
)
