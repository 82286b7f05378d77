"""Moving between conversations and agents (SPEC 4): /session, /agents, /switch."""

from pathlib import Path

import pytest
from two_trees import NOW, Open, agent, contents, fork, refused, rows, said, uuid

import foldmark
from cases import case
from foldmark import Agent, CommandError, Log
from foldmark.log.doctor import examine
from foldmark.operations.effects import Asking, ChooseConversation, SwitchAgent
from planning_talk import IN_CHAT
from stored import connection

AT = "2026-03-01 12:00"
THERE_ARE = "; conversations: default, other"
QUESTION = "Erase conversation 'other' (40000000) and its 1 fork for good (1 message)? This cannot be taken back."


@pytest.fixture
def erased(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The agents that /session delete erased, in order."""
    found: list[str] = []
    monkeypatch.setattr(Agent, "redact_all", lambda agent, *, actor: found.append(agent.id))
    return found


def listed(agent: Agent, flags: str = "") -> list[str]:
    return [each["name"] for each in agent.do(f"/session list {flags}").data["conversations"]]


# The list


def test_the_list(talk: Log) -> None:
    result = agent(talk, 3).do("/session list")
    assert result.event_id is None
    assert result.text.splitlines() == [
        f"* default  10000000  4 messages, context 2 · 3 agents · last used {AT}",
        f"  other    40000000  1 message, context 1 · 2 agents · last used {AT}",
    ]
    assert result.data["conversations"] == [
        {
            "name": "default",
            "agent": uuid(1),
            "agents": 3,
            "messages": 4,
            "context": talk.agent("default").context().size._asdict(),
            "last_used": NOW,
            "archived": False,
            "current": True,
        },
        {
            "name": "other",
            "agent": uuid(4),
            "agents": 2,
            "messages": 1,
            "context": talk.agent("other").context().size._asdict(),
            "last_used": NOW,
            "archived": False,
            "current": False,
        },
    ]


def test_the_last_used_comes_first(talk: Log) -> None:
    default = talk.agent("default")
    agent(talk, 5).append("user", "later", created_at="2026-03-02T08:30:00Z")
    assert listed(default) == ["other", "default"]
    assert "last used 2026-03-02 08:30" in default.do("/session list").text
    default.do("/clear")
    assert "4 messages, context 0" in default.do("/session list").text


def test_listing_and_looking_write_nothing(talk: Log) -> None:
    before = rows(talk)
    for line in ("/session list", "/session list --all", "/agents", "/switch 3000", "/resume", "/resume other"):
        agent(talk, 2).do(line)
    assert rows(talk) == before


# New, resume, rename, archive


def test_new_makes_a_conversation_and_goes_to_it(talk: Log) -> None:
    result = agent(talk, 2).do("/session new my plan")
    assert (result.text, result.event_id) == ("New conversation 'my plan' (60000000).", None)
    assert result.data == {"switch": uuid(6), "name": "my plan"}
    assert talk.agent("my plan").id == uuid(6)
    assert contents(talk.agent("my plan")) == []


def test_resume_goes_to_a_conversation(talk: Log) -> None:
    talk.agent("my plan")
    for name, number in (("other", 4), ("4000", 4), (uuid(1), 1), ("my plan", 6)):
        assert agent(talk, 3).do(f"/resume {name}").data["switch"] == uuid(number)
    result = agent(talk, 1).do("/resume other")
    assert result.text == "Switched to conversation 'other' (40000000): 1 message sent."
    assert result.data == {"switch": uuid(4), "name": "other"}
    text = "You are in conversation 'default' (10000000) already."
    assert agent(talk, 1).do("/resume default").text == text
    assert agent(talk, 1).do("/resume other") == result, "an older name"


def test_resume_without_a_name_lets_the_person_choose(talk: Log) -> None:
    agent(talk, 1).do("/session archive other")
    talk.agent("my plan")
    result = agent(talk, 2).do("/resume")
    assert result.effect == ChooseConversation()
    assert [each["name"] for each in result.data["conversations"]] == ["default", "my plan"]
    assert result.text.splitlines()[-1] == "/resume NAME goes to one."


def test_rename(talk: Log, open_log: Open) -> None:
    result = agent(talk, 3).do("/rename the first one")
    assert result.text == "Conversation 'default' is now named 'the first one'."
    assert result.data == {"agent": uuid(1), "name": "the first one", "was": "default"}
    assert agent(talk, 1).name == "the first one"
    assert not talk.exists("default")
    assert talk.agent("the first one").id == uuid(1)
    talk.close()
    log = open_log()
    assert log.agent("the first one").id == uuid(1)
    assert log.agent("the first one").do('/rename "default"').data["was"] == "the first one"
    assert contents(log.agent("default")) == ["hello", "hi"]


def test_names_with_spaces_stand_in_quotes(talk: Log) -> None:
    default = talk.agent("default")
    assert default.do('/session new "my talk"').data["name"] == "my talk"
    assert default.do('/send "my talk" look at "this"').text == "Sent to 60000000."
    assert default.do('/switch "my talk"').data["switch"] == uuid(6)
    for line in ("/resume", "/session archive", "/session unarchive"):
        default.do(f'{line} "my talk"')
    assert default.do('/session delete "my talk" --yes').data["deleted"] == [uuid(6)]


def test_the_archive_hides_a_conversation_until_it_is_switched_to(talk: Log, open_log: Open) -> None:
    default = talk.agent("default")
    result = default.do("/session archive other")
    assert result.text == ("Conversation 'other' archived; --all lists it, `unarchive` brings it back.")
    assert listed(default) == ["default"]
    assert default.do("/session list").text.splitlines()[1] == ("1 conversation archived; --all lists it as well")
    assert listed(default, "--all") == ["default", "other"]
    assert default.do("/session list --all").text.splitlines()[1].endswith(" · archived")
    talk.close()
    log = open_log()
    default = log.agent("default")
    assert contents(log.agent("other")) == ["elsewhere"], "it can be read and written as ever"
    said(log.agent("other"), "more")
    default.do("/switch 4000")
    assert listed(default) == ["default"], "/switch does not bring it back"
    assert default.do("/resume other").text == (
        "Switched to conversation 'other' (40000000): 2 messages sent. It is back from the archive."
    )
    assert listed(default) == ["default", "other"]


def test_a_conversation_comes_back_from_the_archive_where_one_is(talk: Log) -> None:
    default = talk.agent("default")
    default.do("/session archive other")
    result = default.do('/session unarchive "other"')
    assert result.text == "Conversation 'other' is back from the archive."
    assert (result.effect, result.data) == (None, {"agent": uuid(4), "name": "other", "archived": False})
    assert listed(default) == ["default", "other"]
    assert refused(default, "/session unarchive other") == (
        "conversation 'other' is not archived; `list --all` shows which are"
    )


def test_the_conversation_one_is_in_can_be_archived(talk: Log) -> None:
    assert agent(talk, 2).do("/session archive default", asking=IN_CHAT).text.endswith(" You are still in it.")
    assert listed(agent(talk, 2)) == ["default", "other"], "it is shown while one is in it"
    assert listed(agent(talk, 4)) == ["other"]


# Delete


def test_delete_asks_first(talk: Log, erased: list[str]) -> None:
    default = talk.agent("default")
    assert refused(default, "/session delete other") == f"{QUESTION} Nothing was changed; repeat with --yes to do it."
    asked: list[str] = []

    def answer(question: str) -> bool:
        asked.append(question)
        return len(asked) > 1

    with pytest.raises(CommandError, match="not confirmed; nothing was changed"):
        talk.program.do(default, "/session delete other", "human", Asking(answer))
    assert erased == []
    assert talk.exists("other")
    talk.program.do(default, "/session delete other", "human", Asking(answer))
    assert asked == [QUESTION, QUESTION]
    assert erased == [uuid(5), uuid(4)]


def test_the_only_conversation_can_be_deleted_from_anywhere(talk: Log) -> None:
    talk.agent("other").do("/session delete other --yes")
    child = agent(talk, 3)
    result = child.do("/session delete default --yes")
    assert result.text.startswith("Conversation 'default' and its 2 forks erased: 4 messages.")
    assert (result.effect, result.data["deleted"]) == (None, [uuid(1), uuid(2), uuid(3)])
    assert talk.agents() == []
    assert list(examine(talk)) == []


def test_a_chat_goes_on_in_the_conversation_that_was_used_last(talk: Log) -> None:
    for name, minute in (("third", 9), ("fourth", 8), ("archived", 10)):
        talk.clock = lambda minute=minute: f"2026-03-01T12:{minute:02}:00.000000Z"  # type: ignore[misc]
        said(talk.agent(name), "hello")
    talk.agent("default").do("/session archive archived")
    result = agent(talk, 2).do("/session delete default --yes", asking=IN_CHAT)
    assert result.text.splitlines()[-1] == "Switched to conversation 'third' (60000000): 1 message sent."
    assert result.effect == SwitchAgent(uuid(6), "third")
    assert agent(talk, 4).do("/session delete fourth --yes", asking=IN_CHAT).effect is None, "one stays where one is"


def test_a_chat_whose_only_conversation_is_deleted_goes_on_in_a_new_one(talk: Log) -> None:
    default = talk.agent("default")
    default.do("/session archive other")
    result = default.do("/session delete default --yes", asking=IN_CHAT)
    assert result.text.splitlines()[-1] == "New conversation 'default' (60000000)."
    assert result.effect == SwitchAgent(uuid(6), "default")
    assert contents(talk.agent("default")) == []


def test_delete_takes_the_conversation_with_its_forks(talk: Log, open_log: Open, erased: list[str]) -> None:
    stale = open_log().agent("other")
    result = talk.agent("default").do("/session delete other --yes")
    assert result.text.startswith(
        "Conversation 'other' and its 1 fork erased: 1 message. Memos, and mail sent from it, stay."
    )
    deleted = {"deleted": [uuid(4), uuid(5)], "name": "other", "messages": 1}
    assert result.data == {**deleted, "traces": "Another program" in result.text}
    assert erased == [uuid(5), uuid(4)], "children before their parents"
    assert listed(talk.agent("default"), "--all") == ["default"]
    assert not talk.exists("other")
    for log in (talk, open_log()):
        assert [each.id for each in log.agents()] == [uuid(1), uuid(2), uuid(3)]
        for number in (4, 5):
            gone = f"agent {number}0000000 was deleted on {AT} by a person; conversations: default"
            for find in (log.agent, log.find):
                with pytest.raises(CommandError) as caught:
                    find(uuid(number))
                assert str(caught.value) == gone
            with pytest.raises(CommandError, match=f"agent {number}0000000 was deleted on"):
                log.find(f"{number}000")
            assert refused(log.agent("default"), f"/switch {number}000") == gone
    for write in (lambda: stale.append("user", "x"), lambda: stale.do("/mark"), lambda: stale.do("/fork")):
        with pytest.raises(CommandError, match=f"was deleted on {AT} by a person; nothing can be added to it"):
            write()


def test_the_name_is_free_after_a_deletion(talk: Log, erased: list[str]) -> None:
    default = talk.agent("default")
    default.do("/session delete other --yes")
    result = default.do("/session new other")
    assert result.data["switch"] == uuid(6)
    assert contents(talk.agent("other")) == []
    assert talk.find("other").id == uuid(6)
    assert len(erased) == 2


def test_a_living_agent_comes_before_a_deleted_one(talk: Log, erased: list[str]) -> None:
    talk.new_id = lambda: "40000000-aaaa-4000-8000-000000000000"
    child = fork(talk.agent("default"))
    assert "several uuids begin with" in refused(child, "/switch 4000")
    talk.agent("default").do("/session delete other --yes")
    assert talk.find("4000") == child
    assert len(erased) == 2


def test_a_conversation_that_is_not_archived_is_entered_without_a_write(
    talk: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database may be read-only, or another program may be writing."""
    monkeypatch.setattr(talk.store, "write", None)
    assert talk.agent("default").do("/resume other").text


def test_mail_of_a_deleted_conversation(talk: Log) -> None:
    """Unread mail to it is deleted with it; mail that it sent to others still arrives."""
    default = talk.agent("default")
    default.do("/send other secret")
    agent(talk, 5).do("/send default hello", actor="model")
    default.do("/session delete other --yes")
    mail = connection(talk).execute("SELECT content FROM events WHERE kind = 'mail'").fetchall()
    assert sorted(mail) == [("",), ("hello",)]
    assert default.do("/check-mail", actor="model").text == "1 message from 50000000."


def test_nothing_is_left_of_a_deleted_conversation(tmp_path: Path) -> None:
    with foldmark.open(tmp_path / "log.db") as log:
        here, gone = log.agent("here"), log.agent("two words")
        here.append("user", "KEPT")
        gone.append("user", "ERASED one")
        gone.append_tool_call("ERASED_tool", {"ERASED": 1}, call_id="c1")
        gone.append_tool_result("c1", "ERASED " * 3000)
        gone.do("/scratchpad edit ERASED")
        child = log.agent(gone.do("/fork").data["child"])
        child.append("user", "ERASED two")
        child.do("/forget ERASED things", asking=IN_CHAT)
        here.do("/session delete two words --yes")
        assert list(examine(log)) == []
        held = b"".join(file.read_bytes() for file in tmp_path.iterdir()).lower()
        assert b"kept" in held
        assert b"erased" not in held


def test_an_erasure_that_fails_deletes_nothing(talk: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(agent: Agent, *, actor: str) -> None:
        agent.append("system", "written before it failed")
        if agent.parent is None:
            raise CommandError("no")

    monkeypatch.setattr(Agent, "redact_all", fail)
    with pytest.raises(CommandError, match="no"):
        talk.agent("default").do("/session delete other --yes")
    assert contents(talk.agent("other")) == ["elsewhere"]
    for number in (4, 5):
        agent(talk, number).context()
        assert contents(agent(talk, number)) == ["elsewhere"]
        said(agent(talk, number), "and on")
    assert list(examine(talk)) == []


def test_the_doctor_sees_what_is_wrong_with_a_deletion(talk: Log, erased: list[str]) -> None:
    assert list(examine(talk)) == []
    db = connection(talk)
    talk.agent("default").do("/session archive other")
    assert list(examine(talk)) == []
    talk.agent("default").do("/session delete other --yes")
    assert len(erased) == 2
    assert [finding.text for finding in examine(talk)] == [
        "agent 40000000: it is deleted, but 1 of its events still hold text"
    ]
    db.execute("UPDATE events SET content = '' WHERE content = 'elsewhere'")
    db.execute("UPDATE agents SET name = 'other' WHERE key = 4")
    db.execute("UPDATE agents SET deleted = 0 WHERE key = 5")
    db.execute("UPDATE agents SET archived = 1 WHERE key = 2")
    texts = [finding.text for finding in examine(talk)]
    assert "agent 40000000: it is deleted, but its child 50000000 is not" in texts
    assert "agent 40000000: its name is 'other', which its events do not give it" in texts
    assert any(text.startswith("agent 50000000: its row says deleted 0, its events say ") for text in texts)
    assert "agent 20000000: it is archived, but not a conversation" in texts


# Agents


def test_the_tree_of_agents(talk: Log) -> None:
    fork(agent(talk, 1))
    agent(talk, 2).append("user", "x" * 399_000)
    agent(talk, 1).do("/send 2000 hello")
    agent(talk, 1).do("/send 2000 hello")
    agent(talk, 2).do("/kill 3000")
    result = agent(talk, 2).do("/agents")
    assert result.event_id is None
    assert result.text.splitlines() == [
        "  10000000 default  idle · 2 messages · ~3 recorded tokens (0%)",
        "*   20000000  turn open · 5 messages · ~99,755 recorded tokens (49%) · 2 unread",
        "      30000000  dead · 4 messages · ~5 recorded tokens (0%)",
        "    60000000  waits for its first message · 2 messages · ~3 recorded tokens (0%)",
    ]
    assert [(each["agent"], each["parent"], each["depth"]) for each in result.data["agents"]] == [
        (uuid(1), None, 0),
        (uuid(2), uuid(1), 1),
        (uuid(3), uuid(2), 2),
        (uuid(6), uuid(1), 1),
    ]
    assert result.data["agents"][1] == {
        "agent": uuid(2),
        "name": None,
        "parent": uuid(1),
        "state": "turn open",
        "messages": 5,
        "tokens": 99_755,
        "percent": 49,
        "unread": 2,
        "depth": 1,
        "current": True,
    }


def test_looking_takes_no_note_of_what_others_wrote(talk: Log, open_log: Open) -> None:
    """Listing agents does not read them: an append to an agent with another writer's events is still refused."""
    mine = agent(talk, 2)
    said(agent(open_log(), 2), "from elsewhere")
    agent(talk, 1).do("/agents")
    agent(talk, 1).do("/session list")
    with pytest.raises(Exception, match="another writer has appended"):
        mine.append("user", "x")


def test_a_deep_tree(talk: Log) -> None:
    talk.new_id = iter(f"{n:08x}-0000-4000-8000-000000000000" for n in range(2000)).__next__
    last = talk.agent("default")
    for _ in range(60):
        last = fork(last)
    depths = [each["depth"] for each in last.do("/agents").data["agents"]]
    assert (len(depths), max(depths)) == (63, 60)
    assert listed(last) == ["default", "other"]


def test_switch_goes_to_any_agent(talk: Log) -> None:
    agent(talk, 1).do("/send 3000 hello")
    for name, number in (("3000", 3), (uuid(5), 5), ("default", 1)):
        assert agent(talk, 2).do(f"/switch {name}").data["switch"] == uuid(number)
    assert agent(talk, 1).do("/switch 3000").text == (
        "Switched to agent 30000000: 4 messages sent. 1 unread message; /check-mail shows it."
    )
    agent(talk, 1).do("/kill 5000")
    assert agent(talk, 1).do("/switch 5000").text == (
        f"Switched to agent 50000000: 1 message sent. It is dead: killed by a person in 10000000 at {AT}."
    )
    assert agent(talk, 3).do("/switch 3000").text == "You are in agent 30000000 already."


# Wrong requests with their full messages

A_NAME = "invalid name {}: a conversation's name has 1 to 200 printable characters and is not a uuid"
TAKEN = "a conversation '{}' already exists; choose another name (`foldmark import` takes --as)"
NONE = "there is no conversation or agent '{}'" + THERE_ARE
FORK = "agent 20000000 is a fork in conversation 'default', not a conversation; /switch 20000000 goes to it"


WRONG = [
    ("/session", "/session needs one of: list, new, archive, unarchive, delete"),
    (
        "/session rename other another",
        "/session needs one of: list, new, archive, unarchive, delete; did you mean /rename?",
    ),
    (
        "/session remove other",
        "/session needs one of: list, new, archive, unarchive, delete",
    ),
    ("/session list other", "unexpected argument 'other'; usage: /session list [--all]"),
    ("/session list --everything", "unexpected argument '--everything'; usage: /session list [--all]"),
    ("/session new", "NAME is missing; usage: /session new NAME..."),
    ("/session new other", TAKEN.format("other")),
    (f"/session new {uuid(9)}", A_NAME.format(f"'{uuid(9)}'")),
    ("/session new a\x07b", A_NAME.format("'a\\x07b'")),
    (f"/session new {'x' * 201}", A_NAME.format(f"'{'x' * 40}'")),
    ("/session new a\u2028b", A_NAME.format("'a\\u2028b'")),
    ("/session new \ud83d", A_NAME.format("'\\ud83d'")),
    ("/resume nope", NONE.format("nope")),
    ("/resume Default", NONE.format("Default")),
    ("/resume 4f", NONE.format("4f")),
    ("/resume \ud83d", NONE.format("\\ud83d")),
    ("/resume 2000", FORK),
    ("/rename", "NEW is missing; usage: /rename NEW..."),
    ("/rename other", TAKEN.format("other")),
    ("/rename default", TAKEN.format("default")),
    (f"/rename {uuid(1)}", A_NAME.format(f"'{uuid(1)}'")),
    ("/session archive", "NAME is missing; usage: /session archive NAME..."),
    ("/session archive nope", NONE.format("nope")),
    ("/session archive 2000", FORK),
    ("/session delete", "NAME is missing; usage: /session delete NAME... [--yes]"),
    ("/session delete --yes", "NAME is missing; usage: /session delete NAME... [--yes]"),
    ("/session delete nope --yes", NONE.format("nope")),
    ("/session delete other -y", "there is no conversation or agent 'other -y'; conversations: default, other"),
    ("/session delete 2000 --yes", FORK),
    ("/agents all", "unexpected argument 'all'; usage: /agents"),
    ("/switch", "UUID is missing; usage: /switch UUID"),
    ("/switch 2000 3000", "unexpected argument '3000'; usage: /switch UUID"),
    ("/switch 9999", NONE.format("9999")),
    (f"/switch {uuid(9)}", NONE.format(uuid(9))),
]


def test_wrong_requests(talk: Log) -> None:
    for line, message in WRONG:
        with case(line):
            assert refused(agent(talk, 2), line) == message


def test_archived_already(talk: Log) -> None:
    agent(talk, 1).do("/session archive other")
    assert refused(agent(talk, 1), "/session archive other") == (
        f"conversation 'other' was already archived on {AT}; `unarchive` brings it back"
    )


def test_deleted_by_somebody_else_meanwhile(talk: Log, open_log: Open, erased: list[str]) -> None:
    """A conversation may be deleted after it is found and before it is written to."""
    from foldmark.log import family

    other = open_log().agent("other")
    talk.agent("default").do("/session delete other --yes")
    for late in (
        lambda: family.rename(other, "again", "human"),
        lambda: family.archive(other, "human"),
        lambda: family.delete(other, "human"),
    ):
        with pytest.raises(CommandError, match=f"^agent 40000000 was deleted on {AT} by a person$"):
            late()
    assert not talk.exists("again")
    assert len(erased) == 2


@pytest.mark.parametrize(
    "line", ["/session list", "/session new x", "/session delete other --yes", "/agents", "/switch 3000"]
)
def test_these_are_not_for_a_model(talk: Log, line: str) -> None:
    assert "is not for a model; available: /mark" in refused(agent(talk, 2), line, "model")
