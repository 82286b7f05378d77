"""The offline model plays delegation: mark, fork, send, check-mail (SPEC 6, 9; [S0]'s sub-agent pattern)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_offline import FILTER, Message, assistant, called, pieces, request, result, user

import foldmark
from foldmark.core.assembly.layers import birth_message, identity, mail_notice
from foldmark.core.request import Request, ToolCall
from foldmark.log.log import Agent
from foldmark.providers.offline_delegation import asks_for_mail, asks_for_report, own_task, report, tasks_in
from foldmark.providers.offline_lines import WHO
from foldmark.runtime.unprompted import append_birth
from sampled import DEEP

SLASH = [{"type": "function", "function": {"name": "slash", "parameters": {"type": "object"}}}]
PARENT, CHILD, OTHER = (digit * 8 + "-0000-4000-8000-000000000000" for digit in "abc")
NOTICE = "[Foldmark: your context is 60% full, ~120,000 of 200,000 tokens. Keep what must last.]"


def answer_to(asked: Request) -> tuple[str, list[tuple[str, str]], list[ToolCall]]:
    """Return the text, the commands with arguments, and the calls of an answer; check that repeating it is the same."""
    answer = pieces(asked)
    assert answer
    assert answer == pieces(asked)
    text = "".join(piece for piece in answer if isinstance(piece, str))
    calls = [piece for piece in answer if isinstance(piece, ToolCall)]
    assert answer[len(answer) - len(calls) :] == calls
    assert all(call.name == "slash" for call in calls)
    return text, [(call.args["command"], call.args.get("args", "")) for call in calls], calls


class Talk:
    """A turn of the offline model, step by step; the test supplies the results."""

    def __init__(self, *messages: Message, system: str = "") -> None:
        self.messages = [*([{"role": "system", "content": system}] if system else []), *messages]
        self.calls: list[ToolCall] = []

    def say(self, text: str) -> tuple[str, list[tuple[str, str]]]:
        return self._step([user(text)])

    def go(self, *results: str, then: list[Message] | None = None) -> tuple[str, list[tuple[str, str]]]:
        """Send the results of the last calls, and the messages that came meanwhile."""
        answered = [result(call, text) for call, text in zip(self.calls, results, strict=True)]
        return self._step([*answered, *(then or [])])

    def _step(self, messages: list[Message]) -> tuple[str, list[tuple[str, str]]]:
        self.messages += messages
        text, commands, self.calls = answer_to(request(self.messages, tools=SLASH + FILTER))
        self.messages.append(spoken(text, self.calls))
        return text, commands


def spoken(text: str, calls: list[ToolCall]) -> Message:
    if not calls:
        return assistant(text)
    return {
        "role": "assistant",
        "content": text or None,
        "tool_calls": [call for each in calls for call in called(each)["tool_calls"]],
    }


def forked(child: str, number: int) -> tuple[str, str]:
    return f"Checkpoint 'TASK_{number}' created.", f"Forked. Child: {child[:8]} (from TASK_{number})"


def mail(sender: str, text: str) -> Message:
    return user(f"[Mail from {sender[:8]} at 2025-01-02 03:04]\n{text}")


def birth(words: str = "", mark: str | None = "TASK_1") -> Message:
    return user(birth_message(CHILD, PARENT, mark, words))


# Requests to delegate, and other texts


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        ("Delegate: research OAuth2; research session-based auth", ["research OAuth2", "research session-based auth"]),
        ("Research these in parallel: - OAuth2 - JWT", ["research OAuth2", "research JWT"]),
        ("Delegate to sub-agents: - a one - a two - a three", ["a one", "a two", "a three"]),
        ("Research these in parallel:\n- OAuth2\n- JWT\n", ["research OAuth2", "research JWT"]),
        ("Please delegate:\n\n1. read a.py\n2. read b.py\n\nThen wait.", ["read a.py", "read b.py"]),
        ("Delegate these tasks: 1) read TLS 1.3. 2) read b.py", ["read TLS 1.3", "read b.py"]),
        ("Delegate: research OAuth2", ["research OAuth2"]),
        ("delegate: research OAuth2. Report via /send.", ["research OAuth2"]),
        ("Delegate: research OAuth2, and report back.", ["research OAuth2"]),
        ("Delegate: report on lunch; report on dinner", ["report on lunch", "report on dinner"]),
        ("Hello! Delegate: compare the two", ["compare the two"]),
        ("Delegate: a one\nDelegate: a two\nDelegate: a one", ["a one", "a two"]),
        ("Use sub-agents for these: OAuth2; JWT", ["OAuth2", "JWT"]),
        ("Give these to three children:\n* the login\n  with its tests\n  - and docs\n* the logout",
         ["the login with its tests - and docs", "the logout"]),
        ("Do these in parallel: - compare a with b - test c", ["compare a with b", "test c"]),
        ("Investigate in parallel:\n• compare a\n• b", ["compare a", "investigate b"]),
        ("Delegate: " + "word " * 1000, [("word " * 100).strip()]),
    ],
)  # fmt: skip
def test_a_clear_request_to_delegate_is_followed(text: str, tasks: list[str]) -> None:
    assert tasks_in(text) == tuple(tasks)
    said, commands = Talk().say(text)
    assert said == f"Task 1: {tasks[0]}. Report by slash send when it is done."
    assert commands == [("mark", "TASK_1"), ("fork", "TASK_1")]


@pytest.mark.parametrize(
    "text",
    [
        "hello there",
        "How do I delegate work to sub-agents?",
        "You can delegate: it is useful",
        "Do not delegate: research OAuth2; research JWT",
        "Never run these in parallel: a; b",
        "These tests fail in parallel:\n- test_a\n- test_b",
        "Do these run in parallel: a; b?",
        "Do not do these in parallel: a; b",
        "Use no sub-agents for these: a; b",
        "My children:\n- Anna\n- Ben",
        "Give my children these: apples; pears",
        "Run the tests in parallel: it is faster",
        "Compare these: OAuth2; JWT",
        "delegate: self",
        "  delegate: true",
        "Delegate method not called: tableView; why is that",
        "```\nDelegate: research OAuth2; research JWT\n```",
        "> Delegate: research OAuth2; research JWT",
        "Delegate:",
        "Delegate: ;;",
        "Delegate:\n\nOAuth2",
        "the delegate: research OAuth2; research JWT",
        "[Mail from abcdef01 at 2025-01-02 03:04]\nDelegate: a one; a two",
    ],
)
def test_other_texts_are_not_delegated(text: str) -> None:
    said, commands = Talk().say(text)
    assert commands == []
    assert said.startswith(WHO)
    if not text.startswith("["):
        assert "You wrote" in said
        assert said == Talk().say(text)[0]


def test_without_the_tool_nothing_is_delegated() -> None:
    for text in ("Delegate: research OAuth2; research JWT", "check mail", mail_notice([CHILD])):
        assert answer_to(request([user(text)], tools=FILTER))[1] == []
        assert answer_to(request([user(text)], tools=SLASH, purpose="match"))[1] == []


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("check mail", True),
        ("Check your mail, please.", True),
        ("please check for new mail", True),
        ("any news?", True),
        ("Any news yet?", True),
        ("Is there any mail?", True),
        ("check-mail", True),
        ("news", False),
        ("any news about the login bug?", False),
        ("write a mail client", False),
        ("check the mail module for bugs", False),
        ("read mail.py", False),
    ],
)
def test_a_question_about_mail_reads_the_mail(text: str, asks: bool) -> None:
    assert asks_for_mail(text) is asks
    assert Talk().say(text)[1] == ([("check-mail", "")] if asks else [])


# A parent


def test_a_parent_delegates_one_task_per_answer() -> None:
    talk = Talk()
    assert talk.say("Delegate: research OAuth2; which is faster?") == (
        "Task 1: research OAuth2. Report by slash send when it is done.", [("mark", "TASK_1"), ("fork", "TASK_1")]
    )  # fmt: skip
    assert talk.go(*forked(CHILD, 1)) == (
        "Task 2: which is faster? Report by slash send when it is done.", [("mark", "TASK_2"), ("fork", "TASK_2")]
    )  # fmt: skip
    done = "I delegated 2 tasks to children (TASK_1, TASK_2); ask me again when mail has come, or use /check-mail."
    assert talk.go(*forked(OTHER, 2)) == (f"{WHO}. {done}", [])
    assert "You wrote 1 word: “thanks”" in talk.say("thanks")[0]


def test_every_call_of_an_answer_has_its_own_id() -> None:
    talk = Talk(user("hello"), spoken("", [ToolCall("offline-4", "x", {})]), result(ToolCall("offline-4", "x", {}), ""))
    talk.say("Delegate: research OAuth2")
    assert [call.call_id for call in talk.calls] == ["offline-5", "offline-6"]


def test_at_most_eight_tasks_are_delegated() -> None:
    talk = Talk()
    talk.say("Delegate: " + "; ".join(f"read file {number}" for number in range(12)))
    for number in range(1, 8):
        assert talk.go(*forked(CHILD, number))[1][1] == ("fork", f"TASK_{number + 1}")
    said, commands = talk.go(*forked(CHILD, 8))
    assert commands == []
    assert "I delegated 8 of 12 tasks to children (TASK_1, TASK_2, TASK_3" in said


@pytest.mark.parametrize(
    "error", ["Error: a planning conversation is open.", "[Interrupted: this call has no result.]", ""]
)
def test_an_error_ends_the_delegation(error: str) -> None:
    talk = Talk()
    talk.say("Delegate: research OAuth2; research JWT; research SAML")
    talk.go(*forked(CHILD, 1))
    said, commands = talk.go("Checkpoint 'TASK_2' created.", error)
    assert commands == []
    assert said.startswith(f"{WHO}. That did not work: ")
    assert "I delegated 1 of 3 tasks to a child (TASK_1)" in said
    assert "planning conversation is open. I" in said or not error.startswith("Error")


def test_the_next_step_follows_from_calls_and_not_from_the_text_of_results() -> None:
    talk = Talk()
    talk.say("Delegate: research OAuth2; research JWT")
    assert talk.go("Set.", "Error-free: a child works on it.")[1] == [("mark", "TASK_2"), ("fork", "TASK_2")]
    assert "I delegated 2 tasks to children (TASK_1, TASK_2)" in talk.go("Set.", "Done.")[0]
    talk.say("any news?")
    assert talk.go("Nothing has come.") == (f"{WHO}. There is no mail.", [])
    talk = Talk(birth("do x"))
    assert talk.say(str(birth("do x")["content"]))[1][0][0] == "send"
    assert talk.go("It is on its way.") == (f"{WHO}. I reported to agent aaaaaaaa.", [])


def test_notices_in_between_do_not_stop_the_delegation() -> None:
    talk = Talk()
    talk.say("Delegate: research OAuth2; research JWT")
    _, commands = talk.go(*forked(CHILD, 1), then=[user(NOTICE), user(mail_notice([CHILD]))])
    assert commands == [("mark", "TASK_2"), ("fork", "TASK_2")]
    assert talk.go(*forked(OTHER, 2), then=[user(NOTICE)])[1] == [("check-mail", "")]
    said, commands = talk.go("1 message from bbbbbbbb.", then=[mail(CHILD, "done")])
    assert commands == []
    assert said == (
        f"{WHO}. I delegated 2 tasks to children (TASK_1, TASK_2); ask me again when mail has come, or use "
        "/check-mail. 1 message came from bbbbbbbb:\n- bbbbbbbb: “done”"
    )


def test_the_next_text_of_a_person_counts() -> None:
    talk = Talk()
    talk.say("Delegate: research OAuth2; research JWT")
    assert "You wrote 1 word: “stop”" in talk.go(*forked(CHILD, 1), then=[user("stop")])[0]


# Mail


def test_a_notice_of_mail_makes_the_model_read_and_report_it() -> None:
    talk = Talk(user("hello"), assistant("hi"))
    assert talk.say(mail_notice([CHILD, OTHER])) == ("", [("check-mail", "")])
    long = "a report of more than eighty characters " * 3
    both = user(f"{mail(CHILD, long)['content']}\n\n{mail(OTHER, 'short')['content']}")
    assert talk.go("2 messages from bbbbbbbb, cccccccc.", then=[both]) == (
        f"{WHO}. 2 messages came from bbbbbbbb, cccccccc:\n- bbbbbbbb: “{long[:79]}…”\n- cccccccc: “short”", []
    )  # fmt: skip


def test_a_question_about_mail_checks_once() -> None:
    talk = Talk()
    assert talk.say("any news?") == ("", [("check-mail", "")])
    assert talk.go("No mail.") == (f"{WHO}. There is no mail.", [])
    assert talk.say("check mail")[1] == [("check-mail", "")]
    assert talk.go("Error: the mail waits.", then=[user(NOTICE)]) == (f"{WHO}. That did not work: the mail waits.", [])


def test_a_task_in_a_mail_is_not_delegated() -> None:
    talk = Talk()
    talk.say(mail_notice([CHILD]))
    said, commands = talk.go("1 message from bbbbbbbb.", then=[mail(CHILD, "Delegate: a one; a two")])
    assert commands == []
    assert said.endswith("bbbbbbbb: “Delegate: a one; a two”")


# A child


def test_a_child_reports_and_ends_its_turn() -> None:
    talk = Talk()
    words = "Task 1: research OAuth2 implementation patterns. Report by slash send when it is done."
    said, commands = talk.say(str(birth(words)["content"]))
    assert said == ""
    assert commands == [
        ("send", f"aaaaaaaa {WHO}: I cannot carry out “research OAuth2 implementation patterns”; the task has 4 words.")
    ]
    assert talk.go("Sent to aaaaaaaa.") == (f"{WHO}. I reported to agent aaaaaaaa.", [])
    assert "You wrote 1 word: “thanks”" in talk.say("thanks")[0]


def test_a_report_that_cannot_be_sent_is_not_repeated() -> None:
    talk = Talk()
    talk.say(str(birth("do x")["content"]))
    assert talk.go("Error: agent aaaaaaaa is dead; nothing was sent") == (
        f"{WHO}. That did not work: agent aaaaaaaa is dead; nothing was sent.", []
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "mark", "task"),
    [
        ("Task 1: read a. Report by slash send.\nTask 2: read b.\nTask 12: read c.", "TASK_2", "read b"),
        ("Task 1: read a. Task 2: read b.", "TASK_12", "Task 1: read a. Task 2: read b"),
        ("I fork now. Task 7: read a.", None, "read a"),
        ("Read a; then b. Report findings via /send when complete.", "RESEARCH", "Read a; then b"),
        ("Report by /send.", None, ""),
    ],
)
def test_a_child_finds_its_task_in_the_words_of_its_parent(words: str, mark: str | None, task: str) -> None:
    assert own_task(words, mark) == task
    assert Talk().say(str(birth(words, mark)["content"]))[1] == [("send", f"aaaaaaaa {report(task)}")]


def test_without_such_words_the_task_is_the_text_above() -> None:
    above = [user("Compare OAuth2 with JWT. Report via /send."), assistant("I will."), birth()]
    assert Talk(*above[:2]).say(str(above[2]["content"]))[1] == [
        ("send", f"aaaaaaaa {report('Compare OAuth2 with JWT')}")
    ]
    assert Talk().say(str(birth()["content"]))[1] == [("send", f"aaaaaaaa {WHO}: I see no task that would be mine.")]


def test_a_child_does_not_delegate_an_inherited_text() -> None:
    text = "Delegate: research OAuth2; research JWT"
    assert [name for name, _ in Talk(user(text)).say(str(birth()["content"]))[1]] == ["send"]
    # It was forked before its parent had answered, so no birth message follows.
    talk = Talk(system=identity(CHILD, PARENT))
    said, commands = talk.say(text)
    assert commands == []
    assert said == f"{WHO}. I may have that text from agent aaaaaaaa, whose child I am, so I do not delegate it again."
    talk = Talk(system=identity(CHILD, PARENT))
    assert [name for name, _ in talk.say(f"{text}. Report via /send.")[1]] == ["send"]


def test_a_child_delegates_a_persons_text() -> None:
    text = "Delegate: research OAuth2; research JWT. Report by mail."
    talk = Talk(birth("do x"), assistant("done"), system=identity(CHILD, PARENT))
    assert talk.say(text)[1] == [("mark", "TASK_1"), ("fork", "TASK_1")]
    talk.go(*forked(OTHER, 1))
    assert talk.go(*forked(OTHER, 2))[1] == []
    talk = Talk(system=identity(CHILD, PARENT))
    talk.say("Do x. Report via /send.")
    talk.go("Sent to aaaaaaaa.")
    assert talk.say(text)[1] == [("mark", "TASK_1"), ("fork", "TASK_1")]


def test_a_grandchild_has_its_own_identity() -> None:
    text = "Delegate: research OAuth2; research JWT"
    parent = Talk(system=identity(CHILD, PARENT))
    parent.say(str(birth("do x")["content"]))
    parent.go("Sent to aaaaaaaa.")
    inherited = [*parent.messages[1:], user(text)]
    told = birth_message(OTHER, CHILD, None)
    assert Talk(*inherited, system=identity(OTHER, CHILD)).say(told)[1] == [("send", f"bbbbbbbb {report(text)}")]
    said, commands = Talk(*inherited[:-1], system=identity(OTHER, CHILD)).say(text)
    assert commands == []
    assert "I may have that text from agent bbbbbbbb" in said


def test_an_identity_and_a_goal_identify_a_child() -> None:
    """With a goal between /mark and /fork, the child begins with the person's text and gets no birth message."""
    talk = Talk(system=f"Be kind.\n\n{identity(CHILD, PARENT)}")
    assert talk.say("Investigate authentication. Report findings via /send when complete.")[1] == [
        ("send", f"aaaaaaaa {report('Investigate authentication')}")
    ]
    assert talk.go("Sent to aaaaaaaa.") == (f"{WHO}. I reported to agent aaaaaaaa.", [])
    assert "You wrote 1 word" in talk.say("hello")[0]
    assert "You wrote" in Talk().say("Investigate authentication. Report via /send.")[0]
    for text in ("see src/send.py", "report the sending of mail", "how does send work?"):
        assert not asks_for_report(text)


def test_a_child_answers_mail_of_its_parent_once() -> None:
    talk = Talk(birth("do x"), assistant("done"))
    talk.say(mail_notice([PARENT]))
    both = user(f"{mail(PARENT, 'go on')['content']}\n\n{mail(OTHER, 'hi')['content']}")
    assert talk.go("2 messages from aaaaaaaa, cccccccc.", then=[both])[1] == [
        ("send", f"aaaaaaaa {WHO}: I can only say that I got 2 words: “go on”.")
    ]
    told = "2 messages came from aaaaaaaa, cccccccc:\n- aaaaaaaa: “go on”\n- cccccccc: “hi”"
    assert talk.go("Sent to aaaaaaaa.") == (f"{WHO}. I answered agent aaaaaaaa. {told}", [])
    talk.say(mail_notice([OTHER]))
    assert talk.go("1 message from cccccccc.", then=[mail(OTHER, "hi")])[1] == []


def test_mail_that_comes_while_a_child_works_is_read() -> None:
    talk = Talk(system=identity(CHILD, PARENT))
    talk.messages.append(birth("do x"))
    assert talk.say(mail_notice([PARENT]))[1][0][0] == "send"
    assert talk.go("Sent to aaaaaaaa.")[1] == [("check-mail", "")]
    assert talk.go("1 message from aaaaaaaa.", then=[mail(PARENT, "hurry")])[1][0][0] == "send"
    said, commands = talk.go("Sent to aaaaaaaa.")
    assert commands == []
    assert "I reported to agent aaaaaaaa. I answered agent aaaaaaaa. 1 message came" in said


def test_the_state_block_among_the_messages_is_not_a_persons_text() -> None:
    for head in ("STATE", "EARLIER CONVERSATION"):
        state = user(f"### {head}\nGoal: x\n\n### SCRATCHPAD\nDelegate: research OAuth2; research JWT")
        assert Talk(user("hello"), assistant("hi"), state).say(mail_notice([CHILD]))[1] == [("check-mail", "")]


# The whole exchange on a real log


def _turn(agent: Agent) -> list[tuple[str, str]]:
    """Run an open turn as the runtime does. Return the commands that the model used."""
    used = []
    for _ in range(20):
        text, commands, calls = answer_to(agent.request(provider="offline", model="offline"))
        if text:
            agent.append("assistant", text)
        for call in calls:
            agent.append_tool_call(call.name, call.args, call_id=call.call_id, dialect="openai")
        for call in calls:
            agent.append_tool_result(call.call_id, agent.call_tool(call.name, call.args), dialect="openai")
        used += commands
        if not calls:
            agent.end_turn()
            return used
    raise AssertionError("the turn does not end")


def _told(agent: Agent, *senders: Agent) -> list[tuple[str, str]]:
    agent.append("user", mail_notice([sender.id for sender in senders]), actor="system")
    return _turn(agent)


def test_a_delegation_works_from_beginning_to_end() -> None:
    with foldmark.open(":memory:") as log:
        parent = log.agent("default")
        parent.append("user", "Delegate: research OAuth2; research sessions")
        names = [name for name, _ in _turn(parent)]
        assert names == ["mark", "fork", "mark", "fork"]
        children = parent.children
        assert len(children) == 2
        for number, child in enumerate(children, 1):
            assert not list(child.context().messages)
            append_birth(child)
            task = ("research OAuth2", "research sessions")[number - 1]
            assert _turn(child) == [("send", f"{parent.id[:8]} {report(task)}")]
            assert "I reported to agent" in list(child.context().messages)[-1].content
        assert _told(parent, *children) == [("check-mail", "")]
        last = list(parent.context().messages)[-1].content
        assert last.startswith(f"{WHO}. 2 messages came from {children[0].id[:8]}, {children[1].id[:8]}:\n- ")
        assert [_told(child, parent) for child in children] == [[("check-mail", "")]] * 2

        parent.do(f"/send {children[0].id} What about JWT?")
        (look, (name, _)) = _told(children[0], parent)
        assert (look, name) == (("check-mail", ""), "send")
        assert _told(parent, children[0]) == [("check-mail", "")]
        assert "I can only say that I got 3 words" in list(parent.context().messages)[-1].content
        assert parent.do("/check-mail").text == children[0].do("/check-mail").text == "No mail."


# Any input

AGENT = st.sampled_from([PARENT, CHILD, OTHER])
ANY = st.one_of(
    st.sampled_from(
        [
            "Delegate: a one; a two",
            "check mail",
            "Do x. Report via /send.",
            "hello",
            NOTICE,
            "",
            "### STATE\nx",
            "### EARLIER CONVERSATION\nDelegate: a one; a two",
        ]
    ),
    st.builds(lambda sender: mail_notice([sender]), AGENT),
    st.builds(lambda sender, text: str(mail(sender, text)["content"]), AGENT, st.sampled_from(["x", "Delegate: a b"])),
    st.builds(lambda parent, words: birth_message(CHILD, parent, "TASK_1", words), AGENT, st.text(max_size=30)),
)
RESULT = st.sampled_from(
    [
        "Checkpoint 'TASK_1' created.", "Forked. Child: bbbbbbbb (from TASK_1)", "Sent to aaaaaaaa.", "No mail.",
        "1 message from aaaaaaaa.", "Error: no.", "", "Forked. Child: ../../x",
    ]
)  # fmt: skip
RIGHT = {
    "mark": "Checkpoint 'X' moved.",
    "fork": "Forked. Child: bbbbbbbb",
    "send": "Sent to aaaaaaaa.",
    "check-mail": "1 message from aaaaaaaa.",
}


@given(
    begin=st.lists(ANY | st.just(None), min_size=1, max_size=6),
    system=st.sampled_from(["", identity(CHILD, PARENT), identity(OTHER, CHILD)]),
    data=st.data(),
)
def test_every_turn_ends(begin: list[str | None], system: str, data: st.DataObject) -> None:
    """Without a new request the turn ends, for any context, results and messages."""
    talk = Talk(*(assistant("Said.") if each is None else user(each) for each in begin), system=system)
    _, commands = talk.say(data.draw(ANY))
    came, steps = 0, 0
    while commands:
        results = [data.draw(st.just(RIGHT[name]) | RESULT) for name, _ in commands]
        more = data.draw(st.lists(ANY, max_size=2)) if came < 6 else []
        came += len(more)
        _, commands = talk.go(*results, then=[user(each) for each in more])
        steps += 1
        assert steps <= 4 + 4 * (len(begin) + came)


@pytest.mark.parametrize(
    "arguments", ["", "null", "[]", '{"command": ["fork"]}', '{"command": "fork", "args": 5}', "{"]
)
def test_hostile_calls_are_harmless(arguments: str) -> None:
    call = ToolCall("c", "slash", {})
    message = spoken("", [call])
    message["tool_calls"][0]["function"]["arguments"] = arguments
    said, _, _ = answer_to(request([user("hello"), message, result(call, "x")], tools=SLASH))
    assert said.startswith(WHO)


@pytest.mark.parametrize(("name", "command"), [("slash", "kill"), ("slash", "clear"), ("shell", "send")])
def test_calls_of_other_models_do_not_count(name: str, command: str) -> None:
    call = ToolCall("c", name, {"command": command, "args": "x"})
    said, _, _ = answer_to(request([user("hello"), spoken("", [call]), result(call, "Error: no")], tools=SLASH))
    assert "You wrote 2 words: “Error: no” (tool result)" in said


def test_huge_texts_take_linear_time() -> None:
    for text in (
        "Delegate: ",
        "- a b\n",
        "Delegate:\n- a\n",
        "use in parallel ",
        "report send ",
        "? please ",
        "check ",
        "Task 1: ",
    ):
        many = text * ((300_000 if DEEP else 100_000) // len(text))
        for content in (many, f"Delegate: {many}", str(birth(many)["content"]), str(mail(CHILD, many)["content"])):
            answer_to(request([user(content)], tools=SLASH))
