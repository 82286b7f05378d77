"""Prompts that Gemini CLI and qwen-code join because they were typed while it worked, with commands among them (SPEC
5.7)."""

import json
from typing import Any

import pytest
from completions_client import CompletionsRunning, as_it_came, otherwise
from gemini_client import GeminiRunning
from plan import Fail, Reply, Say, Think, Use

from foldmark.live.clients.weaving import ContentsWeaver
from foldmark.text.queued import JOIN, unjoined

ALPHA, BETA = "queued alpha\n\nin two paragraphs", "queued beta"
WAITED = JOIN.join((ALPHA, ":mark HERE", BETA))
SIGNED = "c2lnbmVk"


def sent(gemini: GeminiRunning) -> str:
    return json.dumps([each.body["contents"] for each in gemini.upstream.requests])


def marks(gemini: GeminiRunning) -> int:
    return [event.kind for event in gemini.agent.events(0, 1000)].count("mark")


def test_a_command_among_prompts(gemini: GeminiRunning) -> None:
    gemini.client.say("one")
    said = gemini.client.say(WAITED)
    assert said.startswith("Checkpoint 'HERE' created.")
    assert "\n\nI see 3." in said
    assert gemini.users()[-1] == f"{ALPHA}\n\n{BETA}"
    gemini.client.say("next")
    gemini.client.say("after it")
    assert gemini.users()[-3:] == [f"{ALPHA}\n\n{BETA}", "next", "after it"]
    assert ("assistant", "I see 3.") in gemini.texts()
    assert [each in sent(gemini) for each in (":mark", "Checkpoint", "foldmark")] == [False] * 3
    assert marks(gemini) == 1
    assert [each for each in gemini.recorded() if each.startswith("queued")] == [ALPHA, BETA]
    assert not any(event.kind == "filter" for event in gemini.agent.events(0, 1000))


def test_another_gateway_goes_on(gemini: GeminiRunning) -> None:
    """Also one of another run: Gemini CLI then repeats trimmed texts without signatures."""
    gemini.client.say("one")
    gemini.model.fails = [
        Reply((Think("Hm.", SIGNED), Say(("It is so. ",)), Use("c1", "read_file", {}, SIGNED)), "calls")
    ]
    gemini.client.say(WAITED)
    gemini.again(gemini.run)
    gemini.client.say("next")
    for content in gemini.client.contents:
        content["parts"] = [
            {**part, "text": part["text"].strip()} if "text" in part else part for part in content["parts"]
        ]
    gemini.again("s" * 32)
    gemini.client.say("after it")
    assert ("assistant", "It is so.") in [(kind, text.strip()) for kind, text in gemini.texts()]
    assert [each in sent(gemini) for each in (":mark", "Checkpoint", "foldmark")] == [False] * 3
    assert gemini.users()[-3:] == [f"{ALPHA}\n\n{BETA}", "next", "after it"]


def test_it_acts_on_what_came_before_it(gemini: GeminiRunning) -> None:
    gemini.client.say("one")
    gemini.client.say(JOIN.join((ALPHA, ":clear", BETA)))
    assert gemini.users()[1:] == [BETA]


def test_only_commands(gemini: GeminiRunning) -> None:
    gemini.client.say("one")
    before = len(gemini.upstream.requests)
    said = gemini.client.say(":mark A\n\n:mark B\n\n:clera A")
    assert said.index("'A' created") < said.index("'B' created") < said.index("did you mean :clear A?")
    assert len(gemini.upstream.requests) == before
    gemini.client.say("next")
    assert not any(each in sent(gemini) for each in (":mark", ":clera"))


def test_a_call_before_any_text(gemini: GeminiRunning) -> None:
    gemini.client.say("one")
    gemini.model.fails = [Reply((Use("c1", "read_file", {}, SIGNED),), stop="calls")]
    gemini.client.say(WAITED)
    assert gemini.client.contents[-3]["parts"][0]["text"].startswith("Checkpoint")
    gemini.client.say("next")
    assert "Checkpoint" not in sent(gemini)
    assert marks(gemini) == 1


def test_a_request_that_is_sent_again(gemini: GeminiRunning, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one comes later, and is the same prompt."""
    gemini.client.say("one")
    gemini.model.fails = [Fail("busy")]
    with pytest.raises(AssertionError):
        gemini.client.say(WAITED)
    monkeypatch.setattr("foldmark.live.view.QUEUED_SECONDS", 0)
    assert "Checkpoint 'HERE' created." in gemini.client.go_on()
    gemini.client.say("next")
    assert ":mark" not in sent(gemini)
    assert marks(gemini) == 1


@pytest.mark.parametrize("more", ["", "\n--- Content from referenced files ---"])
def test_a_text_that_may_be_pasted_is_refused(
    gemini: GeminiRunning, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    """It came so long after an answer that a person may have pasted it. Nothing is done, and the answer says so."""
    client = gemini.client
    client.say("one")
    monkeypatch.setattr("foldmark.live.view.QUEUED_SECONDS", 0)
    before = len(gemini.upstream.requests)
    client.contents.append({"role": "user", "parts": [{"text": WAITED}, *([{"text": more}] if more else [])]})
    said = client.go_on()
    assert said.startswith("foldmark: nothing was sent and nothing was done. :mark HERE is a line of this prompt")
    assert len(gemini.upstream.requests) == before
    assert marks(gemini) == 0
    client.say(WAITED.replace(":mark", " :mark"))
    assert gemini.users()[-1] == WAITED.replace(":mark", " :mark")
    assert "nothing was sent" not in sent(gemini)
    assert gemini.recorded()[-2:] == ["one", WAITED.replace(":mark", " :mark")]


def test_a_first_text_that_may_be_pasted(gemini: GeminiRunning) -> None:
    """The client adds its own text to the first prompt, which stays."""
    assert "nothing was sent" in gemini.client.say(WAITED)
    assert gemini.client.say("next") == "I see 1."
    gemini.client.say("after it")
    assert [text for text in gemini.users() if not text.startswith("<")] == ["next", "after it"]


def test_the_contents_of_a_file_are_no_prompt(gemini: GeminiRunning) -> None:
    gemini.client.say("one")
    texts = ["read @a.txt", "\n--- Content from referenced files ---", "\nContent from @a.txt:\n", "a\n\n:clear\n\nb"]
    gemini.client.contents.append({"role": "user", "parts": [{"text": text} for text in texts]})
    assert gemini.client.go_on() == "I see 3."
    assert gemini.users()[-1] == texts[-1]


@pytest.mark.parametrize(
    ("text", "prompts"),
    [
        (":mark A", [":mark A"]),
        ("a\n\nb", ["a\n\nb"]),
        ("a\n:mark A\nb", ["a\n:mark A\nb"]),
        (":mark A\n\n:yes", [":mark A", ":yes"]),
        ("a\n\n\n\nb\n\n:mark A\n\nc\n\nd", ["a\n\n\n\nb", ":mark A", "c\n\nd"]),
    ],
)
def test_the_prompts_in_a_text(text: str, prompts: list[str]) -> None:
    assert unjoined(text, lambda line: line.startswith(":")) == prompts
    assert JOIN.join(prompts) == text


def body(*parts: Any, **more: Any) -> bytes:
    return json.dumps({"candidates": [{"content": {"parts": parts}, **more}]}).encode()


@pytest.mark.parametrize(
    ("answer", "streamed"),
    [
        (b"data: " + body({"text": "Hm.", "thought": True}) + b"\r\n\r\ndata: " + body({"text": "A."}) + b"\n\n", True),
        (body({"text": "A."}, finishReason="STOP"), False),
        (b"[" + body({"text": "Hm.", "thought": True}) + b"," + body({"text": "A."}) + b"]", False),
    ],
)
def test_the_place_of_a_reply(answer: bytes, streamed: bool) -> None:
    weaver = ContentsWeaver("Done.", streamed=streamed)
    woven = b"".join(weaver.add(answer[at : at + 7]) for at in range(0, len(answer), 7)) + weaver.end()
    assert woven.count(b"Done.") == 1
    assert rb'"text":"Done.\n\nA."' in woven


def test_an_answer_without_any_text() -> None:
    weaver = ContentsWeaver("Done.", streamed=True)
    woven = weaver.add(b"data: " + json.dumps({"candidates": [{"finishReason": "STOP"}]}).encode() + b"\r\n\r\n")
    assert rb'"parts":[{"text":"Done.\n\n"}]' in woven
    assert weaver.add(b"data: [not JSON]\n\n") == b"data: [not JSON]\n\n"


SUMMARY = """Summarize the user's primary intent or goal in this conversation in ONE sentence (max 80 characters).

Conversation:
{}

Summary (max 80 chars):"""
"""What Gemini CLI asks when it starts, about the session before."""


def test_the_summary_of_an_earlier_session(gemini: GeminiRunning) -> None:
    said = {line: gemini.client.say(line) for line in ("one", ":mark A", ":clera A", WAITED, "two")}
    turns = [f"User: {asked}\n\nAssistant: {answer}" for asked, answer in said.items()]
    assert "Checkpoint" in SUMMARY.format("\n\n".join(turns))
    gemini.again("s" * 32)
    gemini.client.post(
        "generateContent", {"contents": [{"role": "user", "parts": [{"text": SUMMARY.format("\n\n".join(turns))}]}]}
    )
    asked = gemini.upstream.requests[-1].body["contents"][0]["parts"][0]["text"]
    assert [each in asked for each in (":mark", ":clera", "Checkpoint", "foldmark")] == [False] * 4
    assert [each in asked for each in ("User: one", said["one"], ALPHA, BETA, "User: two")] == [True] * 5
    assert asked.endswith(f"{said['two']}\n\nSummary (max 80 chars):")
    gemini.client.say("next")
    assert [agent.name for agent in gemini.agents] == [gemini.agent.name]


def test_the_summary_of_an_earlier_session_leaves_out_what_has_left(gemini: GeminiRunning) -> None:
    """Also after a restart, and where the client quotes only the beginning of a long message."""
    long = "my secret plan " * 60
    said = {line: gemini.client.say(line) for line in ("one", long, "again", "again")}
    last = gemini.agent.context().turns(100)[-1].id
    secret = gemini.turn(long)
    gemini.agent.do(f"/context drop {secret}")
    gemini.agent.do(f"/context drop {last}")
    gemini.again("s" * 32)
    quoted = [f"User: {each[:500]}{'...' * (len(each) > 500)}\n\nAssistant: {answer}" for each, answer in said.items()]
    gemini.client.post(
        "generateContent", {"contents": [{"role": "user", "parts": [{"text": SUMMARY.format("\n\n".join(quoted))}]}]}
    )
    asked = gemini.upstream.requests[-1].body["contents"][0]["parts"][0]["text"]
    assert ("secret" in asked, said[long] in asked) == (False, False)
    assert ("User: one" in asked, said["one"] in asked, "User: again" in asked) == (True, True, True)
    assert asked.endswith("\n\nSummary (max 80 chars):")


def test_another_run_goes_on_after_a_reply_that_begins_with_blanks(gemini: GeminiRunning) -> None:
    gemini.client.say("one")
    gemini.model.fails = [Reply((Use("c1", "read_file", {}, SIGNED),), stop="calls")]
    gemini.client.say("two")
    gemini.client.say(JOIN.join((ALPHA, ":results", BETA)))
    for content in gemini.client.contents:
        content["parts"] = [
            {**part, "text": part["text"].strip()} if "text" in part else part for part in content["parts"]
        ]
    gemini.again("s" * 32)
    gemini.client.say("after it")
    assert [each in sent(gemini) for each in (":results", "leaves a placeholder")] == [False] * 2
    assert gemini.users()[-2:] == [f"{ALPHA}\n\n{BETA}", "after it"]
    assert "I see" in gemini.texts()[-2][1]


# qwen-code 0.15.10, over Chat Completions

RECEIVED = "\n[User message received during tool execution]: "


@pytest.mark.parametrize("repeat", [as_it_came, otherwise])
def test_a_command_among_prompts_of_qwen_code(completions: CompletionsRunning, repeat: Any) -> None:
    client = completions.client
    client.repeat = repeat
    client.say("one")
    said = client.say(WAITED)
    assert said.startswith("Checkpoint 'HERE' created.")
    assert said.endswith("\n\nI see 4.")
    assert completions.users()[-1] == f"{ALPHA}\n\n{BETA}"
    client.say("next")
    completions.again(completions.run)
    client.say("after it")
    assert completions.users()[-3:] == [f"{ALPHA}\n\n{BETA}", "next", "after it"]
    assert ("assistant", "I see 4.") in completions.texts()
    body = json.dumps([each.body for each in completions.upstream.requests])
    assert [each in body for each in (":mark", "Checkpoint", "foldmark")] == [False] * 3
    events = completions.agent.events(0, 1000)
    assert [each.kind for each in events].count("mark") == 1
    assert [each.kind for each in events].count("filter") == 0
    assert [each.content for each in events if each.content.startswith("queued")] == [ALPHA, BETA]


@pytest.mark.parametrize("more", [[BETA], []])
def test_what_qwen_code_sends_behind_results(completions: CompletionsRunning, more: list[str]) -> None:
    client = completions.client
    client.say("one")
    client.messages.append({"role": "user", "content": "READ two"})
    client.messages.append(as_it_came(client.ask(client.messages)))
    for call in client.messages[-1]["tool_calls"]:
        client.messages.append({"role": "tool", "tool_call_id": call["id"], "content": "data"})
    typed = [":mark HERE", *more, f":drop {completions.turn('one')}"]
    client.messages.append({"role": "user", "content": [{"type": "text", "text": RECEIVED + each} for each in typed]})
    answer = client.ask(client.messages)
    assert "Checkpoint 'HERE' created." in answer["content"]
    assert "left the context" in answer["content"]
    client.messages.append(as_it_came(answer))
    client.say("next")
    body = json.dumps([each.body for each in completions.upstream.requests])
    assert [each in body for each in (":mark", ":drop", "Checkpoint", "left the context")] == [False] * 4
    kinds = [each.kind for each in completions.agent.events(0, 1000)]
    assert [kinds.count(each) for each in ("mark", "drop", "filter")] == [1, 1, 0]
    assert [each.content for each in completions.agent.events(0, 1000) if each.kind == "user"][2:] == [*more, "next"]
    assert completions.users()[-1] == "next"
