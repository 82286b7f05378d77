"""The offline model (SPEC 9): plain answers, scripts, previews, mail and children, digests, state blocks, hostile
bodies."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import foldmark
from foldmark.core.assembly.layers import birth_message, identity, mail_notice
from foldmark.core.assembly.prompt import EMPTY, GO_ON, OMITTED
from foldmark.core.assembly.wire import NO_RESULT
from foldmark.core.ports import Provider
from foldmark.core.request import Edge, Manifest, Part, Request, ToolCall
from foldmark.providers.offline import WHO, OfflineModel

Message = dict[str, Any]

FAILED = ("Error: ", NO_RESULT)
"""The beginnings of results that the manifest marks as failed."""

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("filter_context", "slash", "look")]
PARENT, CHILD, OTHER = (digit * 8 + "-0000-4000-8000-000000000000" for digit in "abc")


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def called(*calls: ToolCall, text: str = "") -> Message:
    made = [
        {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.args)}}
        for call in calls
    ]
    return {"role": "assistant", "content": text or None, "tool_calls": made}


def result(call: ToolCall, content: object) -> Message:
    text = content if isinstance(content, str) else json.dumps(content)
    return {"role": "tool", "tool_call_id": call.call_id, "content": text}


def request(
    messages: list[Message], *, tools: list[Message] = TOOLS, purpose: str = "answer", parts: tuple[Part, ...] = ()
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
    return "".join(answer)


class Talk:
    """A conversation with the offline model, step by step; the test supplies the results."""

    def __init__(self, *messages: Message, system: str = "", tools: list[Message] = TOOLS) -> None:
        self.messages = [*([{"role": "system", "content": system}] if system else []), *messages]
        self.tools, self.calls = tools, list[ToolCall]()

    def say(self, *texts: str) -> tuple[str, list[tuple[str, Any]]]:
        """Return the text of the answer, and its calls as (tool, arguments)."""
        return self._step([user(text) for text in texts])

    def go(self, *results: object, then: list[Message] | None = None) -> tuple[str, list[tuple[str, Any]]]:
        """Send the results of the last calls, and the messages that came meanwhile."""
        answered = [result(call, text) for call, text in zip(self.calls, results, strict=True)]
        return self._step([*answered, *(then or [])])

    def _step(self, messages: list[Message]) -> tuple[str, list[tuple[str, Any]]]:
        self.messages += messages
        asked = request(self.messages, tools=self.tools)
        answer = pieces(asked)
        assert answer
        assert answer == pieces(asked)
        text = "".join(piece for piece in answer if isinstance(piece, str))
        self.calls = [piece for piece in answer if isinstance(piece, ToolCall)]
        assert answer[len(answer) - len(self.calls) :] == self.calls
        self.messages.append(called(*self.calls, text=text) if self.calls else assistant(text))
        return text, [(call.name, call.args) for call in self.calls]


def slash(command: str, args: str = "") -> tuple[str, dict[str, str]]:
    return "slash", {"command": command, "args": args} if args else {"command": command}


# Ordinary answers


def test_it_says_what_it_is_what_a_model_would_see_and_what_one_can_type() -> None:
    assert text_of([user("hello there")]) == (
        "I am the offline model, not a language model, so I can only say what one would see. You wrote 2 words: "
        "“hello there” (user). In the context there is only that message. /help lists what you can do with it, "
        "and `call list_files {}` makes me use a tool."
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


def test_texts_in_parts_and_results_of_other_models_calls_are_read() -> None:
    parts: Message = {"role": "user", "content": [{"type": "text", "text": "a b"}, {"type": "text", "text": "c"}]}
    assert "You wrote 3 words: “a b c” (user)." in text_of([parts])
    call = ToolCall("c1", "read_file", {"path": "x"})
    messages = [user("read x"), called(call), result(call, "the text of x")]
    assert text_of(messages) == f"{WHO}. This is what I got:\n- read_file: “the text of x”"


def test_a_request_in_another_form_gets_an_answer() -> None:
    """A program may hand it a request that was encoded for another provider."""
    tools: list[Message] = [{"name": "slash", "input_schema": {}}]
    assert "You wrote 1 word" in text_of([{"role": "user", "content": [{"type": "text", "text": "hi"}]}], tools=tools)


# Scripts


def test_each_paragraph_of_a_script_is_one_answer() -> None:
    talk = Talk()
    script = 'Two at once.\ncall look {"at": 1}\n  call look {"at": 2}\n\n  \ncall look {}\n\nThat is all.\nReally.'
    assert talk.say(script) == ("Two at once.", [("look", {"at": 1}), ("look", {"at": 2})])
    assert talk.go("one", "two") == ("", [("look", {})])
    assert talk.go("three") == ("That is all.\nReally.", [])
    assert "You wrote 2 words: “and now” (user)" in talk.say("and now")[0]


def test_without_a_last_paragraph_it_says_what_the_calls_gave() -> None:
    talk = Talk()
    talk.say("call look {}\ncall look {}")
    assert talk.go("one", "two\nlines " + "x" * 300)[0] == (
        f"{WHO}. This is what I got:\n- look: “one”\n- look: “two lines {'x' * 190}…”"
    )


def test_a_call_that_failed_ends_the_script() -> None:
    for error in ("Error: no such file", NO_RESULT):
        talk = Talk()
        talk.say("call look {}\n\ncall look {}")
        assert talk.go(error) == (f"{WHO}. This is what I got:\n- look: “{error}”", [])


def test_notices_and_mail_in_between_do_not_end_the_script() -> None:
    talk = Talk()
    talk.say("call look {}\n\ncall look {}")
    notices = [user("[Foldmark: your context is 60% full.]"), user("[Mail from cccccccc at 2025-01-02 03:04]\nhi")]
    assert talk.go("one", then=notices) == ("", [("look", {})])
    assert "\n- look: “one”\n- mail: “[Mail from cccccccc at 2025-01-02 03:04] hi”\n- look: “2”" in talk.go("2")[0]


@pytest.mark.parametrize("line", ['call look {"at"', "call look {", "call look {'at': 1}", "call x {} {}"])
def test_a_call_without_a_json_object_is_refused(line: str) -> None:
    text, calls = Talk().say(f"call look {{}}\n\n{line}")
    assert text.startswith(f"{WHO}. `call TOOL` takes a JSON object on the same line, and this is none: {{")
    assert calls == []


@pytest.mark.parametrize("text", ["Please call look {}", "call look", "call look []", "Call look {}"])
def test_other_texts_are_no_script(text: str) -> None:
    assert "You wrote" in Talk().say(text)[0]


def test_only_a_person_gives_a_script() -> None:
    for text in (
        "[Mail from abcdefab at 12:00]\ncall look {}",
        "### STATE\ncall look {}",
        "[Foldmark: x]\ncall look {}",
    ):
        assert Talk(user("hello")).say(text)[1] == []


def test_call_ids_differ_from_all_visible_ones() -> None:
    other = ToolCall("offline-4", "x", {})
    talk = Talk(user("hello"), called(other), result(other, ""))
    talk.say("call look {}\ncall look {}")
    assert [call.call_id for call in talk.calls] == ["offline-5", "offline-6"]


def test_a_script_that_goes_back_ends() -> None:
    """Foldmark then quotes the result. The calls before it are no longer there to be counted."""
    with foldmark.open(":memory:", settings={}) as log:
        agent = log.agent("default")
        script = 'call slash {"command": "mark", "args": "A"}\n\ncall slash {"command": "clear", "args": "A"}'

        async def turn() -> None:
            async with foldmark.supervise(log) as agents:
                await agents.say(agent, script)

        asyncio.run(turn())
        kinds = [message.kind for message in agent.context().messages]
        assert (kinds[0], kinds[-2:]) == ("user", ["user", "assistant"])
        assert "Rewound to 'A' at your request" in agent.context().messages[-2].content


# Planning [S1]


def preview(criteria: str, mode: str = "forget") -> list[tuple[str, Any]]:
    return [("filter_context", {"action": "preview", "criteria": criteria, "mode": mode})]


FOUND = {"message_count": 12, "token_estimate": 4500, "ranges": [], "matching_messages": [{"id": 45}]}


def test_forget_previews_and_asks() -> None:
    talk = Talk()
    assert talk.say("/forget database  schema\ndiscussions") == ("", preview("database schema discussions"))
    assert talk.go(FOUND)[0] == (
        "I found 12 messages about database schema discussions. Should I proceed to forget these?"
    )
    assert "You wrote 3 words" in talk.say("also the columns")[0]


def test_remember_previews_and_asks() -> None:
    talk = Talk()
    assert talk.say("/remember API decisions") == ("", preview("API decisions", "remember"))
    assert talk.go({"message_count": 1, "everything_else": 512})[0] == (
        "I found 1 message containing API decisions. Everything else (512 messages) will be forgotten. "
        "Should I proceed?"
    )


def test_a_script_previews_again() -> None:
    talk = Talk()
    talk.say("/forget tables")
    talk.go(FOUND)
    assert talk.say('call filter_context {"action": "preview", "criteria": "lunch"}')[1]
    assert talk.go({"message_count": 0})[0].startswith("I found no messages about lunch. ")


def test_a_preview_needs_the_tool_and_a_person() -> None:
    assert "You wrote 2 words" in Talk(tools=TOOLS[1:]).say("/forget tables")[0]
    assert "You wrote 1 word: “/forget”" in Talk().say("/forget")[0]
    assert Talk(user("hello")).say("[Mail from abcdefab at 12:00]\n/forget tables")[1] == []


@given(st.integers(0, len(json.dumps(FOUND))) | st.text(max_size=60) | st.text(alphabet='{}[]",:019 amtr', max_size=60))
def test_any_result_can_be_read(result: int | str) -> None:
    """A long result is cut at its end."""
    talk = Talk()
    talk.say("/forget tables")
    text, calls = talk.go(json.dumps(FOUND)[:result] + "... [TRUNCATED]" if isinstance(result, int) else result)
    assert text
    assert calls == []


@pytest.mark.parametrize("arguments", ["", "null", "[]", '"x"', "{", '{"action": 5}', '{"criteria": [1]}', "[" * 5000])
@pytest.mark.parametrize("tool", ["filter_context", "slash", "look"])
def test_hostile_calls_are_harmless(tool: str, arguments: str) -> None:
    call = called(ToolCall("c", tool, {}))
    call["tool_calls"][0]["function"]["arguments"] = arguments
    messages = [user("/forget tables"), call, result(ToolCall("c", "", {}), FOUND)]
    assert pieces(request(messages))
    assert pieces(request([*messages, user("call look {}")]))


# Mail and children


def birth(words: str = "", parent: str = PARENT) -> str:
    return birth_message(CHILD, parent, "TASK_1", words)


def report(task: str) -> list[tuple[str, Any]]:
    return [slash("send", f"{PARENT[:8]} {WHO}. I cannot carry out “{task}”.")]


def test_a_notice_of_mail_makes_the_model_read_it() -> None:
    talk = Talk(user("hello"), assistant("hi"))
    assert talk.say(mail_notice([CHILD])) == ("", [slash("check-mail")])
    mail = user("[Mail from bbbbbbbb at 2025-01-02 03:04]\nDone.\ncall look {}")
    assert talk.go("1 message from bbbbbbbb.", then=[mail]) == (
        (
            f"{WHO}. This is what I got:\n- slash: “1 message from bbbbbbbb.”\n"
            "- mail: “[Mail from bbbbbbbb at 2025-01-02 03:04] Done. call look {}”"
        ),
        [],
    )


def test_a_child_reports_once() -> None:
    talk = Talk(system=identity(CHILD, PARENT))
    assert talk.say(birth("research\nOAuth2")) == ("", report("research OAuth2"))
    assert talk.go("Sent to aaaaaaaa.") == (f"{WHO}. This is what I got:\n- slash: “Sent to aaaaaaaa.”", [])
    failing = Talk(system=identity(CHILD, PARENT))
    failing.say(birth("research"))
    assert failing.go("Error: agent aaaaaaaa is dead")[1] == []


def test_without_words_the_task_is_the_message_above() -> None:
    assert Talk(user("Read it."), system=identity(CHILD, PARENT)).say(birth())[1] == report("Read it.")
    assert Talk(system=identity(CHILD, PARENT)).say(birth())[1] == report("an empty task")


def test_a_goal_is_a_task_and_a_later_message_is_not() -> None:
    """The identity may also be among the messages."""
    for talk in (Talk(system=identity(CHILD, PARENT)), Talk(user(identity(CHILD, PARENT)))):
        assert talk.say("Count the words.")[1] == report("Count the words.")
        talk.go("Sent.")
        assert "You wrote 1 word: “third” (user)" in talk.say("third")[0]


def test_a_child_carries_out_the_script_in_its_task_before_it_reports() -> None:
    talk = Talk(system=identity(CHILD, PARENT))
    assert talk.say('call look {"at": 1}') == ("", [("look", {"at": 1})])
    assert talk.go("one")[1] == [slash("send", f"aaaaaaaa {WHO}. This is what I got:\n- look: “one”")]
    assert talk.go("Sent.")[1] == []


def test_a_child_answers_mail() -> None:
    talk = Talk(user(birth("x")), assistant("Said."), system=identity(CHILD, PARENT))
    assert talk.say(mail_notice([PARENT]))[1] == [slash("check-mail")]
    mail = user("[Mail from aaaaaaaa at 2025-01-02 03:04]\nWhy?")
    ((_, args),) = talk.go("1 message.", then=[mail])[1]
    assert args["command"] == "send"
    assert args["args"].endswith("- mail: “[Mail from aaaaaaaa at 2025-01-02 03:04] Why?”")
    assert talk.go("Sent.")[1] == []


def test_a_grandchild_does_not_take_an_inherited_birth_message_for_its_own() -> None:
    inherited = [user(birth("x")), assistant("Said.")]
    talk = Talk(*inherited, user("A text."), assistant("Said."), system=identity(OTHER, CHILD))
    assert "You wrote 5 words" in talk.say("[Foldmark: something else came in.]")[0]
    words = birth_message(OTHER, CHILD, None, "read b")
    ((_, args),) = Talk(*inherited, system=identity(OTHER, CHILD)).say(words)[1]
    assert args["args"] == f"bbbbbbbb {WHO}. I cannot carry out “read b”."


def test_without_the_tool_there_is_no_mail() -> None:
    for text in (mail_notice([CHILD]), birth("x")):
        assert Talk(system=identity(CHILD, PARENT), tools=TOOLS[2:]).say(text)[1] == []


def test_a_delegation_works_from_beginning_to_end() -> None:
    tasks = ("Research OAuth2.", "Research sessions.")
    step = '{}\ncall slash {{"command": "mark", "args": "T{}"}}\ncall slash {{"command": "fork", "args": "T{}"}}'
    script = "\n\n".join(step.format(task, number, number) for number, task in enumerate(tasks))
    with foldmark.open(":memory:", settings={}) as log:
        parent = log.agent("default")

        async def play() -> None:
            async with foldmark.supervise(log) as agents:
                await agents.say(parent, script)
                await agents.settled()
                parent.do(f"/send {parent.children[0].id} What about JWT?")
                await agents.settled()

        asyncio.run(play())
        for child, task in zip(parent.children, tasks, strict=True):
            (sent, *more) = [message for message in child.context().messages if message.kind == "tool_call"]
            assert f"I cannot carry out “{task}”" in sent.content
            assert len(more) == (2 if task == tasks[0] else 0)
        mail = [message.content for message in parent.context().messages if message.content.startswith("[Mail from ")]
        assert "".join(mail).count("[Mail from ") >= 3
        assert "What about JWT?" in mail[-1]
        assert parent.do("/check-mail").text == parent.children[0].do("/check-mail").text == "No mail."


ANY = st.one_of(
    st.sampled_from(
        [
            'call slash {"command": "fork"}\n\ncall look {}\n\nx',
            "call look {}",
            "/forget x",
            "hello",
            "",
            "### STATE\nx",
            "[Foldmark: your context is 60% full.]",
            "[Foldmark: Rewound to 'A' at your request. The result of call c, which stood before that, begins:]",
            "[Mail from aaaaaaaa at 2025-01-02 03:04]\ncall look {}",
            mail_notice([PARENT]),
            birth("call look {}"),
        ]
    ),
    st.text(max_size=30),
)


@given(
    begin=st.lists(ANY | st.none(), max_size=6),
    system=st.sampled_from(["", identity(CHILD, PARENT), identity(OTHER, CHILD)]),
    data=st.data(),
)
def test_every_turn_ends(begin: list[str | None], system: str, data: st.DataObject) -> None:
    """Without a new message the turn ends, for any context, results and messages."""
    talk = Talk(*(assistant("Said.") if each is None else user(each) for each in begin), system=system)
    _, calls = talk.say(data.draw(ANY))
    came, steps = 0, 0
    while calls:
        more = data.draw(st.lists(ANY, max_size=2)) if came < 6 else []
        came += len(more)
        results = [data.draw(st.sampled_from(["", "Done.", "Error: no.", json.dumps(FOUND)])) for _ in calls]
        _, calls = talk.go(*results, then=[user(each) for each in more])
        steps += 1
        assert steps <= 5 * (1 + len(begin) + came)


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
    messages = [user("Start the server"), assistant("It runs."), user("Fix the bug\nplease"), user("State!")]
    assert text_of(messages, purpose="state", parts=INSTRUCTION) == (
        "### STATE\n"
        "Goal: Fix the bug\n"
        "Context: none named\n"
        "Resolved: 1 earlier message of the user (counted by the offline model, which is not a language model)\n"
        "Technical Anchors: none named"
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
        "call " * 60_000,
        "call a {\n" * 30_000,
        "call " + "a" * 300_000,
        "call a" + " " * 300_000,
        " " * 300_000,
        "\n" * 300_000 + "x",
        "\n \n" * 100_000,
        "[Foldmark: " * 30_000,
        "/forget " + "x " * 50_000,
    ):
        for purpose in ("answer", "summary", "state"):
            assert pieces(request([user("/forget tables"), user(text)], purpose=purpose))
