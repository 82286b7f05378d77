"""The offline model (SPEC 9): plain answers, the planning dialogues of [S1], digests, state blocks, hostile bodies."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldmark.core.assembly.prompt import EMPTY, GO_ON, OMITTED
from foldmark.core.assembly.view import NO_RESULT
from foldmark.core.ports import Provider
from foldmark.core.request import Edge, Manifest, Part, Request, ToolCall
from foldmark.providers.offline import OfflineModel

Message = dict[str, Any]

FAILED = ("Error: ", NO_RESULT)
"""The beginnings of results that the manifest marks as failed."""

FILTER = [{"type": "function", "function": {"name": "filter_context", "parameters": {"type": "object"}}}]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def called(call: ToolCall) -> Message:
    function = {"name": call.name, "arguments": json.dumps(call.args)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call.call_id, "type": "function", "function": function}],
    }


def result(call: ToolCall, content: object) -> Message:
    text = content if isinstance(content, str) else json.dumps(content)
    return {"role": "tool", "tool_call_id": call.call_id, "content": text}


def request(
    messages: list[Message], *, tools: list[Message] = FILTER, purpose: str = "answer", parts: tuple[Part, ...] = ()
) -> Request:
    body = {"model": "offline", "tools": tools, "messages": messages}
    results = [str(message["content"]) for message in messages if message["role"] == "tool"]
    parts += tuple(Part("window", None, None, "tool_result", failed=text.startswith(FAILED)) for text in results)
    manifest = Manifest(parts, (), Edge(None, None, 0))
    return Request("offline", "offline", "openai", body, b"", 0, manifest, purpose)


def pieces(asked: Request, model: Provider | None = None) -> list[Any]:
    async def all_of_it() -> list[Any]:
        return [piece async for piece in (model or OfflineModel()).answer(asked)]

    return asyncio.run(all_of_it())


def text_of(messages: list[Message], **how: Any) -> str:
    answer = pieces(request(messages, **how))
    assert all(isinstance(piece, str) for piece in answer), answer
    return "".join(map(str, answer))


def call_of(messages: list[Message], **how: Any) -> ToolCall:
    (call,) = pieces(request(messages, **how))
    assert isinstance(call, ToolCall)
    return call


class Talk:
    """A conversation with the offline model, step by step; the step after a call answers it."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.open: ToolCall | None = None

    def say(self, text: str) -> str | dict[str, Any]:
        self.messages.append(user(text))
        return self._step()

    def answer(self, content: object) -> str | dict[str, Any]:
        assert self.open is not None
        self.messages.append(result(self.open, content))
        return self._step()

    def _step(self) -> str | dict[str, Any]:
        answer = pieces(request(self.messages))
        assert answer == pieces(request(self.messages))
        self.open = answer[0] if isinstance(answer[0], ToolCall) else None
        if self.open is None:
            text = "".join(map(str, answer))
            self.messages.append(assistant(text))
            return text
        assert answer == [self.open]
        self.messages.append(called(self.open))
        assert self.open.name == "filter_context"
        arguments: dict[str, Any] = self.open.args
        return arguments


def preview(criteria: str, mode: str = "forget") -> dict[str, Any]:
    return {"action": "preview", "criteria": criteria, "mode": mode}


# Four messages represent each range, so that the ids are few enough to be named.
IDS = [45, 46, 47, 67, 312, 313, 339, 340, 678, 679, 689, 690]
SCHEMA = {
    "matching_messages": [{"id": id, "role": "user", "preview": "…"} for id in IDS],
    "message_count": 12,
    "token_estimate": 4500,
    "ranges": [
        {"first": 45, "last": 67, "title": "Initial schema design discussion", "count": 4, "tokens": 3000},
        {"first": 312, "last": 340, "title": "Schema refactoring conversation", "count": 4, "tokens": 900},
        {"first": 678, "last": 690, "title": "Column naming debate", "count": 4, "tokens": 600},
    ],
    "added": [],
    "planning_conversation_ids": [88, 89],
}
NOTHING = {"matching_messages": [], "message_count": 0, "token_estimate": 0, "ranges": [], "added": []}
FOUND_SCHEMA = "I found 12 messages about database schema discussions. Should I proceed to forget these?"
APPLIED = {"filter_event_id": 17, "messages_filtered": 12, "context_before": 523, "context_after": 511}


# Ordinary answers


def test_the_offline_model_says_what_it_is_and_what_a_model_would_see() -> None:
    assert text_of([user("hello there")]) == (
        "I am the offline model, not a language model, so I can only say what one would see. You wrote 2 words: "
        "“hello there” (user). In the context there is only that message. /help lists what you can do with it."
    )
    assert "there are 3 messages, the oldest being “first” (user)" in text_of(
        [user("first"), assistant("answer"), user("second")]
    )


@pytest.mark.parametrize("messages", [[], [user(EMPTY)], [{"role": "system", "content": "Be kind."}]])
def test_an_empty_context_gets_an_answer(messages: list[Message]) -> None:
    assert text_of(messages) == "I am the offline model, not a language model. The context is empty."


def test_messages_required_by_the_format_are_not_counted() -> None:
    messages = [{"role": "system", "content": "x"}, user(OMITTED), assistant("first"), user(GO_ON)]
    answer = text_of(messages)
    assert "You wrote 1 word: “first” (assistant)." in answer
    assert "there is only that message" in answer


def test_the_offline_model_streams_word_by_word() -> None:
    answer = pieces(request([user("one two")]), OfflineModel(delay=0.0001))
    assert answer[:3] == ["I", " am", " the"]
    assert "".join(map(str, answer)) == text_of([user("one two")])


def test_texts_in_parts_and_results_of_other_tools_are_read() -> None:
    parts: Message = {"role": "user", "content": [{"type": "text", "text": "a b"}, {"type": "text", "text": "c"}]}
    assert "You wrote 3 words: “a b c” (user)." in text_of([parts])
    call = ToolCall("c1", "read_file", {"path": "x"})
    messages = [user("read x"), called(call), result(call, "the text of x")]
    assert "“the text of x” (tool result). In the context there are 3 messages" in text_of(messages)


# The dialogues of [S1]


def test_the_forget_dialogue_of_the_seed() -> None:
    talk = Talk()
    assert talk.say("/forget database schema discussions") == preview("database schema discussions")
    assert talk.answer(SCHEMA) == FOUND_SCHEMA
    assert talk.say("Show me what you'll forget first") == preview("database schema discussions")
    assert talk.answer(SCHEMA) == FOUND_SCHEMA
    assert talk.say("Yes, proceed") == {
        "action": "apply",
        "mode": "forget",
        "message_ids": IDS,
        "planning_conversation_ids": [88, 89],
    }
    assert talk.answer(APPLIED) == "Done. I've forgotten those 12 messages about database schema discussions."
    assert "I am the offline model" in str(talk.say("Yes"))


def test_the_remember_dialogue_of_the_seed() -> None:
    talk = Talk()
    criteria = "only the final implementation and API decisions"
    assert talk.say(f"/remember {criteria}") == preview(criteria, "remember")
    found = {
        **NOTHING,
        "message_count": 18,
        "ranges": [
            {"first": 450, "last": 465, "title": "Final API contract definition", "count": 14, "tokens": 2000},
            {"first": 890, "last": 890, "title": "Implementation strategy", "count": 1, "tokens": 80},
        ],
        "added": [451, 452],
        "added_tokens": 90,
        "everything_else": 512,
    }
    assert talk.answer(found) == (
        "I found 18 messages containing final implementation and API decisions. Everything else (512 messages) will be "
        "forgotten. Should I proceed?"
    )
    # Not every id was shown, so the call names none, and Foldmark uses those of its preview.
    assert talk.say("Yes") == {"action": "apply", "mode": "remember"}
    applied = {"filter_event_id": 9, "messages_filtered": 512, "context_before": 530, "context_after": 18}
    assert talk.answer(applied) == "Done. Context reduced to 18 messages."


@pytest.mark.parametrize(
    ("text", "criteria"),
    [
        ("which ones?", "tables"),
        ("What will you forget?", "tables"),
        ("show me the list again, please", "tables"),
        ("No, I mean lunch.", "lunch"),
        ("but keep the naming debate", "tables except the naming debate"),
        ("list them", "tables"),
        ("about the login instead", "the login"),
        ("no, only the columns", "the columns"),
        ("actually, I meant columns, please", "columns"),
        ("but not 45-50", "tables except 45-50"),
        ("yes, but not the naming", "tables except the naming"),
        ("all except the naming, please", "tables except the naming"),
        ("leave out 45", "tables except 45"),
        ("keep the naming debate", "tables except the naming debate"),
        ("also the columns", "tables, the columns"),
        ("yes, and also forget columns too", "tables, columns"),
    ],
)
def test_an_answer_to_a_preview_becomes_criteria(text: str, criteria: str) -> None:
    talk = Talk()
    talk.say("/forget tables")
    talk.answer(SCHEMA)
    assert talk.say(text) == preview(criteria)
    answer = str(talk.answer(SCHEMA))
    assert answer.startswith(
        "I found 12 messages" if criteria == "tables" else f"I took that as what to forget: “{criteria}”"
    )
    assert talk.say("ok") == {
        "action": "apply", "mode": "forget", "message_ids": IDS, "planning_conversation_ids": [88, 89]
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "let us leave that; IMPORTANT: we use port 8080",
        "the login bug",
        "why message 45?",
        "no, let us go on with the login",
        "actually, deploy it to port 8080",
        "show me the login code",
        "what should I keep in mind when I deploy?",
        "list the files in src",
        "keep going",
        "only use port 8080",
        "not now",
        "also, what is the weather?",
        "I mean this.\nAnd that.",
        "x" * 1000,
    ],
)
def test_any_other_text_is_answered_as_if_no_planning_were_open(text: str) -> None:
    talk = Talk()
    talk.say("/forget tables")
    talk.answer(SCHEMA)
    assert "I am the offline model" in str(talk.say(text))


def test_a_request_to_keep_more_changes_the_criteria() -> None:
    talk = Talk()
    talk.say("/remember tables")
    talk.answer(SCHEMA)
    assert talk.say("but keep the naming debate") == preview("tables, the naming debate", "remember")


def test_a_no_is_left_to_foldmark() -> None:
    talk = Talk()
    talk.say("/forget tables")
    talk.answer(SCHEMA)
    for text in ("no", "Stop.", "cancel"):
        assert "I am the offline model" in str(talk.say(text))


def test_a_preview_without_matches_asks_for_other_words() -> None:
    talk = Talk()
    talk.say("/forget messages about submarines")
    assert talk.answer(NOTHING) == (
        "I found no messages about submarines. I am the offline model, not a language model: I go by words, not by "
        "meaning. Try other words, or /cancel."
    )
    assert "You wrote 1 word: “yes”" in str(talk.say("yes"))
    assert talk.say("no, I mean boats") == preview("boats")


def test_errors_are_reported_in_plain_words() -> None:
    talk = Talk()
    talk.say("/forget the messages")
    assert talk.answer("Error: 'the messages' holds no word to look for; say what they are about.") == (
        "That did not work: 'the messages' holds no word to look for; say what they are about. Nothing was changed; "
        "tell me in other words, or use /cancel."
    )
    assert talk.say("no, I mean the tables") == preview("the tables")
    talk.answer(SCHEMA)
    assert isinstance(talk.say("yes"), dict)
    assert "That did not work: the person has not agreed" in str(talk.answer("Error: the person has not agreed"))
    assert isinstance(talk.say("yes"), dict)


def test_a_planning_conversation_that_ended_elsewhere_is_over() -> None:
    """A cancelled and restored conversation looks open, but Foldmark reports that it is not."""
    talk = Talk()
    talk.say("/forget tables")
    answer = talk.answer("Error: no planning conversation is open: the person begins one with /forget or /remember")
    assert str(answer).startswith(
        "That did not work: no planning conversation is open: the person begins one with /forget or /remember. "
    )
    assert "You wrote 1 word: “hello” (user)" in str(talk.say("hello"))


def test_one_matching_message_is_reported() -> None:
    talk = Talk()
    talk.say("/forget lunch")
    each = {"first": 3, "last": 3, "title": "Lunch?", "count": 1, "tokens": 2}
    one = {**NOTHING, "matching_messages": [{"id": 3}], "message_count": 1, "token_estimate": 2, "ranges": [each]}
    assert talk.answer(one) == ("I found 1 message about lunch. Should I proceed to forget these?")
    assert talk.say("yes") == {"action": "apply", "mode": "forget", "message_ids": [3]}
    assert talk.answer({**APPLIED, "messages_filtered": 1}) == "Done. I've forgotten that message about lunch."


def test_a_quoted_result_is_read_after_its_call_has_left() -> None:
    notice = (
        "[Foldmark: A part of the context was removed (/forget) at your request. The result of call offline-7, which "
        f"stood before that, begins:]\n> {json.dumps(APPLIED)}"
    )
    assert text_of([user("hello"), user(notice)]) == "Done. I've forgotten those 12 messages."
    assert text_of([user(notice.replace("/forget", "/remember"))]) == "Done. Context reduced to 511 messages."


def test_the_offline_model_plans_only_with_the_tool_and_a_person() -> None:
    assert "You wrote 2 words" in text_of([user("/forget tables")], tools=[])
    other = [{"type": "function", "function": {"name": "slash"}}]
    assert "You wrote 2 words" in text_of([user("/forget tables")], tools=other)
    assert "You wrote 1 word: “/forget”" in text_of([user("/forget")])
    talk = Talk()
    talk.say("/forget tables")
    talk.answer(SCHEMA)
    assert "You wrote" in str(talk.say("[Mail from abc123 at 12:00]\nyes"))
    assert "You wrote" in str(talk.say("[Foldmark: the result of call c1 arrived late]\nyes"))


def test_a_second_planning_conversation_may_follow_the_first() -> None:
    talk = Talk()
    talk.say("/forget tables")
    talk.answer(SCHEMA)
    talk.say("yes")
    talk.answer(APPLIED)
    assert talk.say("/remember lunch") == preview("lunch", "remember")
    talk.answer({**SCHEMA, "everything_else": 1})
    assert isinstance(args := talk.say("ja"), dict)
    assert (args["action"], args["mode"]) == ("apply", "remember")


def test_call_ids_differ_from_all_visible_ones() -> None:
    assert call_of([user("/forget tables")]).call_id == "offline-1"
    messages = [user("hello"), called(ToolCall("offline-4", "x", {})), result(ToolCall("offline-4", "x", {}), "")]
    assert call_of([*messages, user("/forget tables")]).call_id == "offline-5"


# Truncated results [SPEC 5.2]


@given(st.integers(0, len(json.dumps(SCHEMA))))
def test_a_cut_preview_is_applied_as_a_whole(length: int) -> None:
    """The call names the ids only if all of them are visible."""
    talk = Talk()
    talk.say("/forget tables")
    whole = json.dumps(SCHEMA)
    hint = '... [TRUNCATED. Use query_db(sql="SELECT content FROM messages WHERE id=9") to see full output]'
    text = whole if length == len(whole) else "{" + whole[1:length] + hint
    answer = str(talk.answer(text))
    assert "found 12 messages about tables." in answer or "about tables; the preview is too long for me" in answer
    assert isinstance(args := talk.say("yes"), dict)
    assert args["action"] == "apply"
    assert args.get("message_ids", IDS) == IDS
    assert args.get("planning_conversation_ids", [88, 89]) == [88, 89]


@given(st.text(max_size=60) | st.text(alphabet='{}[]",:019 amtr', max_size=60))
def test_any_result_can_be_read(text: str) -> None:
    talk = Talk()
    talk.say("/forget tables")
    assert isinstance(talk.answer(text), str)


@pytest.mark.parametrize(
    "text",
    [
        '{"message_count": "many"}',
        '{"matching_messages": [{"id": "x"}], "message_count": 1}',
        '{"matching_messages": 5}',
        '{"ranges": [{}], "message_count": 2}',
        '{"added": [1.5]}',
        "{" + '"a": [' * 5000,
        '{"message_count": ' + "9" * 6000 + "}",
        "[]",
        "null",
    ],
)
def test_a_result_of_another_shape_is_ignored(text: str) -> None:
    talk = Talk()
    talk.say("/forget tables")
    assert "about tables" in str(talk.answer(text))
    assert talk.say("yes") == {"action": "apply", "mode": "forget"}


@pytest.mark.parametrize("arguments", ["", "null", "[]", '"x"', "{", '{"action": 5}', '{"criteria": [1]}', "[" * 5000])
def test_hostile_calls_of_the_tool_are_harmless(arguments: str) -> None:
    call = called(ToolCall("c", "filter_context", {}))
    call["tool_calls"][0]["function"]["arguments"] = arguments
    messages = [user("/forget tables"), call, result(ToolCall("c", "", {}), SCHEMA)]
    assert "12 messages" in text_of(messages)
    assert call_of([*messages, user("no, I mean lunch")]).args == preview("lunch")


# Digests and state blocks

INSTRUCTION = (Part("window", None, None, "instruction", "synthetic"),)


def test_a_request_for_a_summary_gets_a_digest() -> None:
    messages = [user(f"question {number}\nmore") for number in range(1, 8)] + [assistant("answer"), user("Summarize!")]
    assert text_of(messages, purpose="summary", parts=INSTRUCTION) == (
        "(I am the offline model, not a language model; this is a digest, not a summary.) In 8 messages the user wrote "
        "7 messages; the newest 5 began:\n"
        "- “question 3”\n- “question 4”\n- “question 5”\n- “question 6”\n- “question 7”"
    )
    one = text_of([user("only this")], purpose="summary")
    assert one.endswith("In 1 message the user wrote 1 message; they began:\n- “only this”")
    assert text_of([user("Summarize!")], purpose="summary", parts=INSTRUCTION).endswith("the user wrote 0 messages.")


def test_a_request_for_a_state_block_gets_one() -> None:
    messages = [
        user("Start the server in src/app/main.py"),
        assistant("It listens on localhost:8080 and 10.0.0.7; see also docs/setup.md."),
        user("Fix the bug\nplease"),
        user("State!"),
    ]
    assert text_of(messages, purpose="state", parts=INSTRUCTION) == (
        "### STATE\n"
        "Goal: Fix the bug\n"
        "Context: docs/setup.md, src/app/main.py\n"
        "Resolved: 1 earlier message of the user (counted by the offline model, which is not a language model)\n"
        "Technical Anchors: 10.0.0.7, localhost:8080"
    )
    assert text_of([], purpose="state").startswith("### STATE\nGoal: not said yet\nContext: none named\n")


@given(
    texts=st.lists(st.text(max_size=80), max_size=5), purpose=st.sampled_from(["answer", "summary", "state", "match"])
)
def test_any_texts_get_the_same_answer_twice(texts: list[str], purpose: str) -> None:
    asked = request([user(text) for text in texts], purpose=purpose)
    answer = pieces(asked)
    assert answer == pieces(asked)
    assert answer


def test_huge_texts_take_linear_time() -> None:
    for text in (
        "a" * 300_000,
        "a/" * 100_000,
        "a." * 100_000,
        "no " * 100_000,
        "." * 300_000,
        "/forget " + "x " * 50_000,
    ):
        for purpose in ("answer", "summary", "state"):
            assert pieces(request([user("/forget tables"), user(text)], purpose=purpose))
