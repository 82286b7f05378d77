"""A client that names no session may ask outside its transcript, compact it, go back in it, and resume it (SPEC 5.7).
The provider checks each request."""

import json
import re

import pytest
from gemini_client import CONTEXT, UNSIGNED, Client, Content, GeminiRunning
from plan import Fail, Http

from foldmark.live.status import statuses
from foldmark.log.live_session import client_session


def test_requests_beside_the_conversation(gemini: GeminiRunning) -> None:
    client = gemini.client
    for text in ("one", "secret words", ":context"):
        client.say(text)
    client.say(f":drop {gemini.turn('secret words')}")
    events = len(gemini.agent.events(0, 1000))
    # A router's request: the newest messages, then the prompt in a separate content.
    client.aside([*client.contents[2:], {"role": "user", "parts": [{"text": ":clear"}]}])
    sent = json.dumps(gemini.upstream.requests[-1].body)
    assert not any(each in sent for each in ("secret words", ":context", ":drop", "left the context", ":clear"))
    # A compression: the whole history, no schema and no functions.
    question = {"role": "user", "parts": [{"text": "Summarize."}]}
    client.functions = []
    client.post("streamGenerateContent?alt=sse", {"contents": [*client.contents, question]})
    assert gemini.users() == [CONTEXT, "one", "Summarize."]
    assert len(gemini.agent.events(0, 1000)) == events


@pytest.mark.parametrize("place", [0, 1], ids=["the first", "the second"])
def test_a_request_beside_the_conversation_repeats_equal_prompts(gemini: GeminiRunning, place: int) -> None:
    client = gemini.client
    gemini.model.said = "As before."
    for text in ("one", "again", "again", "two"):
        client.say(text)
    again = [event.turn_id for event in gemini.agent.context().messages if event.content == "again"][place]
    client.say(f":drop {again}")
    for contents in (client.contents, client.contents[2:]):
        client.aside([*contents, {"role": "user", "parts": [{"text": "Where are we?"}]}])
        sent = gemini.upstream.requests[-1].body["contents"]
        users = [text for kind, text in gemini.upstream.wire.texts({"contents": sent}) if kind == "user"]
        assert users[-3:] == ["again", "two", "Where are we?"]
        assert users.count("again") == 1


def test_a_compression_names_the_calls_as_gemini_cli_keeps_them(gemini: GeminiRunning) -> None:
    """There, their names precede their ids, but not in the requests of the conversation."""
    client = gemini.client
    for text in ("READ one", "READ secret words", "three"):
        client.say(text)
    client.say(f":drop {gemini.turn('READ secret words')}")
    result = next(event for event in gemini.agent.context().messages if event.kind == "tool_result")
    client.say(f":evict {result.id}")
    kept = json.loads(re.sub(r'"id": "(c\w+)"', r'"id": "read_file__\1"', json.dumps(client.contents)))
    assert kept != client.contents
    client.functions = []
    question = {"role": "user", "parts": [{"text": "Summarize."}]}
    client.post("generateContent", {"contents": [*kept, question]})
    sent = gemini.upstream.requests[-1].body["contents"]
    texts = gemini.upstream.wire.texts({"contents": sent})
    assert [text for kind, text in texts if kind == "user"] == [CONTEXT, "READ one", "three", "Summarize."]
    assert [text[:9] for kind, text in texts if kind == "result"] == ["[Evicted:", "read_file"]


def test_a_request_beside_the_conversation_without_contents(
    gemini: GeminiRunning, caplog: pytest.LogCaptureFixture
) -> None:
    gemini.client.say("one")
    gemini.client.say(f":drop {gemini.turn('one')}")
    with pytest.raises(AssertionError, match="contents: must not be empty"):
        gemini.client.aside([])
    assert gemini.upstream.refusals.pop()
    assert "passed on as it came" not in caplog.text


def test_a_resumed_session_that_begins_beside_the_conversation(gemini: GeminiRunning) -> None:
    client = gemini.client
    for text in ("one", "two", "secret words", ":context"):
        client.say(text)
    client.say(f":drop {gemini.turn('secret words')}")
    gemini.again("s" * 32)
    client.aside([*client.contents[2:], {"role": "user", "parts": [{"text": "three"}]}])
    sent = json.dumps(gemini.upstream.requests[-1].body)
    assert "three" in sent
    assert not any(each in sent for each in ("secret words", ":context", ":drop", "left the context"))
    client.say("three")
    assert gemini.recorded() == ["one", "two", "three"]


def test_a_client_that_compacts(gemini: GeminiRunning) -> None:
    client = gemini.client
    client.say("one")
    client.say("READ two")
    kept = client.contents[-1]
    snapshot = "<state_snapshot>It was read.</state_snapshot>"
    client.contents = [
        {"role": "user", "parts": [{"text": CONTEXT}, {"text": snapshot}]},
        {"role": "model", "parts": [{"text": "Got it. Thanks for the additional context!"}, *kept["parts"]]},
    ]
    client.say("three")
    assert gemini.recorded() == [snapshot, "three"]
    (operation,) = [event for event in gemini.agent.events() if event.kind == "filter"]
    assert operation.actor == "system"
    (status,) = statuses(gemini.log)
    assert (status.taken_out, status.operations) == (0, 0)
    gemini.agent.do(f"/restore {operation.id}")
    client.say("four")
    assert ("user", "READ two") in gemini.texts()
    gemini.again("s" * 32)  # resumed with the transcript that the client has compacted
    client.say("five")
    assert len(gemini.agents) == 1


def test_a_long_session_that_was_compacted_is_resumed(gemini: GeminiRunning) -> None:
    client = gemini.client
    for number in range(20):
        client.say(f"prompt {number}")
    snapshot = "<state_snapshot>It was read.</state_snapshot>"
    thanks = {"role": "model", "parts": [{"text": "Got it. Thanks for the additional context!"}]}
    begun: Content = {"role": "user", "parts": [{"text": CONTEXT}, {"text": snapshot}]}
    client.contents = [begun, thanks, *client.contents[-4:]]
    client.say("after the compaction")
    client.say(f":drop {gemini.turn('prompt 19')}")
    gemini.again("s" * 32)
    client.say("last")
    assert gemini.users() == [CONTEXT, snapshot, "prompt 18", "after the compaction", "last"]
    assert len(gemini.agents) == 1


def test_a_client_that_goes_back(gemini: GeminiRunning) -> None:
    client = gemini.client
    for text in ("one", "two", "three"):
        client.say(text)
    del client.contents[2:]
    client.say("another two")
    assert gemini.recorded() == ["one", "another two"]


def test_a_client_that_begins_anew(gemini: GeminiRunning) -> None:
    client = gemini.client
    for text in ("one", "two"):
        client.say(text)
    first = client.contents
    client.contents = []
    client.say("something else")
    client.say("more")
    assert [gemini.recorded(agent) for agent in gemini.agents] == [["one", "two"], ["something else", "more"]]
    client.contents = first  # the first session is selected again
    client.say("three")
    assert [gemini.recorded(agent) for agent in gemini.agents] == [
        ["one", "two", "three"],
        ["something else", "more"],
    ]


@pytest.mark.parametrize("run", ["r" * 32, "s" * 32], ids=["the same run", "resumed"])
def test_another_gateway_goes_on(gemini: GeminiRunning, run: str) -> None:
    client = gemini.client
    for text in ("one", "two", ":help", "READ three"):
        client.say(text)
    client.say(f":drop {gemini.turn('two')}")
    events = len(gemini.agent.events(0, 1000))
    gemini.again(run)
    # It is another day, and the signatures of past turns are gone.
    client.contents[0]["parts"][0]["text"] = CONTEXT.replace("folder", "folder on Friday")
    for content in client.contents:
        for part in content["parts"]:
            if "thoughtSignature" in part:
                part["thoughtSignature"] = UNSIGNED
    client.say("four")
    assert gemini.users()[1:] == ["one", "READ three", "four"]
    assert len(gemini.agent.events(0, 1000)) < events + 12  # nothing is recorded twice


def test_another_run_is_another_session(gemini: GeminiRunning) -> None:
    gemini.client.say("Hello.")
    gemini.again("s" * 32)
    other = Client(gemini.gateway.url)
    other.say("Hello.")
    other.say("two")
    assert [gemini.recorded(agent) for agent in gemini.agents] == [["Hello."], ["Hello.", "two"]]
    assert [client_session(agent, "gemini") for agent in gemini.agents] == ["r" * 32, "s" * 32]
    assert client_session(gemini.agents[0], "anthropic") is None


def test_a_resumed_session_repeats_its_responses(gemini: GeminiRunning) -> None:
    """Gemini CLI 0.61 does that, and the API refuses it; Foldmark repairs the requests that it edits."""
    client = gemini.client
    client.say("one")
    client.say("READ two")
    events = len(gemini.agent.events(0, 1000))
    client.contents[4]["parts"] *= 2
    with pytest.raises(AssertionError, match="4 function responses"):
        client.say("three")
    assert gemini.upstream.refusals.pop()
    kinds = [event.kind for event in gemini.agent.events(0, 1000)][events:]
    assert kinds[:2] == ["user", "record"]  # the prompt and its place
    assert kinds[2:] in ([], ["record"])  # the refusal is counted after the client has it
    result = next(event for event in gemini.agent.context().messages if event.kind == "tool_result")
    client.contents.pop()
    client.say(f":evict {result.id}")
    client.say("four")
    assert [text[:9] for kind, text in gemini.texts() if kind == "result"] == ["[Evicted:", "read_file"]


def test_responses_that_the_client_shortens_are_the_same_message(gemini: GeminiRunning) -> None:
    client = gemini.client
    client.say("READ one")
    client.say("two")
    turn = gemini.turn("READ one")
    client.contents[2]["parts"][0]["functionResponse"]["response"]["output"] = "[masked]"
    client.say("three")
    assert gemini.recorded() == ["READ one", "two", "three"]
    assert [event.kind for event in gemini.agent.events(0, 1000)].count("filter") == 0
    client.say(f":drop {turn}")
    client.say("four")
    assert "[masked]" not in json.dumps(gemini.texts())


def test_an_answer_that_the_client_cuts_otherwise_leaves_with_its_turn(gemini: GeminiRunning) -> None:
    client = gemini.client
    client.say("READ one")
    client.say("two")
    turn = gemini.turn("READ one")
    client.contents[1]["parts"][:1] = [{"text": "Rea"}, {"text": "ding."}]
    client.say(f":drop {turn}")
    client.say("three")
    assert gemini.users() == [CONTEXT, "two", "three"]
    assert not any(kind in ("call", "result") for kind, _ in gemini.texts())


def test_an_answer_that_failed_is_asked_for_again(gemini: GeminiRunning) -> None:
    client = gemini.client
    client.say("one")
    client.say(f":drop {gemini.turn('one')}")
    gemini.model.fails.append(Fail("busy"))
    with pytest.raises(AssertionError, match="overloaded"):
        client.say("two")
    client.go_on()
    client.say("three")
    texts = [event.content for event in gemini.agent.context().messages if event.content]
    assert texts == ["two", "I see 1.", "three", "I see 3."]


PNG = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
NAMED = {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0x", "displayName": "a.pdf"}}
PHOTO = {"inlineData": {"mimeType": "image/heic", "data": "aGk="}}
FILE = {"fileData": {"mimeType": "image/png", "fileUri": "https://example.com/files/1"}}
RAN: list[Content] = [
    {"executableCode": {"language": "PYTHON", "code": "1 + 1"}, "thoughtSignature": "c2lnbmVk"},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
]


def test_what_comes_back_is_whole(gemini: GeminiRunning) -> None:
    """Images and documents of results, attached files, and code that Google ran, after the client has compacted."""
    client = gemini.client
    client.say("one")
    made = {"content": {"parts": [*RAN, {"text": "It is 2."}], "role": "model"}, "finishReason": "STOP"}
    gemini.model.fails.append(
        Http(200, {"content-type": "application/json"}, json.dumps([{"candidates": [made]}]).encode())
    )
    client.say("Count.")
    response = {"id": "c9", "name": "read_file", "response": {"output": "Two."}, "parts": [PNG, NAMED, PHOTO]}
    call = {"functionCall": {"id": "c9", "name": "read_file", "args": {}}, "thoughtSignature": UNSIGNED}
    client.contents += [
        {"role": "user", "parts": [{"text": "Look."}, FILE]},
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [{"functionResponse": response}]},
    ]
    client.go_on()
    answers = [event for event in gemini.agent.context().messages if event.kind == "assistant"]
    assert [event.data["blocks"][0]["block"] for event in answers[1:3] if event.data is not None] == RAN
    assert answers[3].content == "It is 2."
    client.contents = [
        {"role": "user", "parts": [{"text": CONTEXT}, {"text": "<state_snapshot>So.</state_snapshot>"}]},
        client.contents[-1],
    ]
    client.say("three")
    operation = [event for event in gemini.agent.events() if event.kind == "filter"][-1]
    gemini.agent.do(f"/restore {operation.id}")
    client.say("four")
    sent = gemini.upstream.asked[-1].body["contents"]
    parts = [part for content in sent for part in content["parts"]]
    for part in (*RAN, FILE, {"functionResponse": response}):
        assert part in parts
