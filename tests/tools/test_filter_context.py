"""`filter_context` (SPEC 4.1, 4.2, S1): what a preview shows, what `apply` needs, and what a model may send."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cases import case
from foldmark import CommandError
from foldmark.core import selections
from foldmark.operations.effects import Asking
from planning_talk import IN_CHAT, Talk
from sampled import DEEP
from stored import stored


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    with Talk(tmp_path / "log.db") as talk:
        yield talk


@pytest.fixture(scope="module")
def two_turns(tmp_path_factory: pytest.TempPathFactory) -> tuple[Talk, dict[str, int]]:
    """A closed talk (a system message, a turn with two tool calls and a turn without); name -> id of each message."""
    with Talk(tmp_path_factory.mktemp("two turns") / "log.db") as talk:
        found = _two_turns(talk)
    return talk, found


@pytest.fixture
def ids(talk: Talk, two_turns: tuple[Talk, dict[str, int]]) -> dict[str, int]:
    """The first messages of the talk: name -> id."""
    talk.go_on_from(two_turns[0])
    return dict(two_turns[1])


def _two_turns(talk: Talk) -> dict[str, int]:
    agent = talk.agent
    found = {
        "system": agent.append("system", "You are brief."),
        "asked": agent.append("user", "Which tables are there?"),
    }
    found["text"] = agent.append("assistant", "I look.")
    found["call"] = agent.append_tool_call("read", {"path": "schema.sql"}, call_id="c1", dialect="openai")
    found["call2"] = agent.append_tool_call("read", {"path": "README"}, call_id="c2", dialect="openai")
    found["result"] = agent.append_tool_result("c1", "CREATE TABLE notes", dialect="openai")
    found["result2"] = agent.append_tool_result("c2", "Read me", dialect="openai")
    found["answer"] = agent.append("assistant", "One: notes.")
    agent.end_turn()
    found["weather"], found["dry"] = talk.exchange("And the weather?", "Dry.")
    return found


def run(talk: Talk, **args: Any) -> dict[str, Any]:
    """Return the tool's answer; neither call nor result is recorded."""
    found: dict[str, Any] = json.loads(talk.agent.call_tool("filter_context", args))
    return found


def refused(talk: Talk, args: Any, *words: str) -> None:
    """Check that the call fails with one line that holds these words, and writes nothing."""
    before = talk.agent.standing().record.head
    with pytest.raises(CommandError) as caught:
        talk.agent.call_tool("filter_context", args)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 1000
    message.encode()
    for word in words:
        assert word in message
    assert talk.agent.standing().record.head == before


def state(talk: Talk) -> dict[str, Any]:
    """Return everything that makes up a context, and its request."""
    context = talk.agent.context()
    return {
        "messages": list(context.messages),
        "segments": context.segments,
        "marks": context.marks,
        "pins": context.pins,
        "state": context.state,
        "scratchpad": context.scratchpad,
        "size": context.size,
        "request": talk.agent.request("openai", "gpt-5").bytes,
    }


# Preview


def test_a_preview_changes_nothing(talk: Talk, ids: dict[str, int]) -> None:
    talk.agent.do("/mark A")
    talk.agent.do(f"/pin {ids['asked']}")
    talk.agent.do(f"/forget messages {ids['weather']}", asking=IN_CHAT)
    before = state(talk)
    operations = len(selections.operations(stored(talk.log), talk.agent.id))
    for mode in ("forget", None):
        assert run(talk, action="preview", **({"mode": mode} if mode else {}))["message_count"] == 1
        assert state(talk) == before
    assert len(selections.operations(stored(talk.log), talk.agent.id)) == operations


def test_a_preview_counts_and_groups_its_matches(talk: Talk, ids: dict[str, int]) -> None:
    talk.agent.do(f"/forget messages {ids['weather']}-{ids['dry']}", asking=IN_CHAT)
    planned = talk.ids[-1]
    found = run(talk, action="preview")
    tokens = {message.id: message.tokens for message in talk.agent.context().messages}
    total = tokens[ids["weather"]] + tokens[ids["dry"]]
    assert found == {
        "message_count": 2,
        "token_estimate": total,
        "ranges": [
            {
                "first": ids["weather"],
                "last": ids["dry"],
                "title": found["ranges"][0]["title"],
                "count": 2,
                "tokens": total,
            }
        ],
        "added": [],
        "added_tokens": 0,
        "planning_conversation_ids": [planned],
        "matching_messages": [
            {"id": ids["weather"], "role": "user", "preview": "And the weather?"},
            {"id": ids["dry"], "role": "assistant", "preview": "Dry."},
        ],
        "offer": found["offer"],
    }
    event = selections.event(stored(talk.log), found["offer"])
    assert event is not None
    assert (event.kind, event.content) == ("command", "preview")
    assert "weather" in found["ranges"][0]["title"]


def test_a_preview_is_one_line_and_short_for_each_message(talk: Talk) -> None:
    long = talk.says("First line\n\tand  second\u2028" + "x" * 100_000)
    talk.agent.end_turn()
    talk.agent.do(f"/forget messages {long}", asking=IN_CHAT)
    (shown,) = run(talk, action="preview")["matching_messages"]
    assert shown["preview"].startswith("First line and second xxx")
    assert len(shown["preview"]) == 80


def test_a_long_preview_is_sent_whole_while_its_offer_is_open(talk: Talk) -> None:
    """Other results are cut at 5000 characters in their own turn and at 300 later (SPEC 5.2)."""
    agent = talk.agent
    with agent.batch():
        first, *_, last = [agent.append("user", f"number {number} " + "x" * 90) for number in range(300)]
    agent.end_turn()
    talk.agent.do(f"/forget messages {first}-{last}", asking=IN_CHAT)
    found = talk.tool(action="preview")
    assert found["message_count"] == 300
    assert len(found["matching_messages"]) == 100
    assert len(json.dumps(found)) > 5000

    def previews() -> list[str]:
        return [text for text in talk.sent() if "message_count" in text]

    assert [json.loads(text) for text in previews()] == [found]
    talk.answers("Should I proceed?")
    talk.says("Those, please")
    assert [json.loads(text) for text in previews()] == [found]
    again = talk.tool(action="preview")
    old, new = previews()
    assert len(old) < 5500
    assert old.startswith('{"message_count":300,"token_estimate":')
    assert '"ranges":[{"first":' in old
    assert json.loads(new) == again
    talk.answers("Should I proceed?")
    talk.says("yes")
    assert talk.tool(action="apply")["messages_filtered"] == 300


def test_a_matched_call_takes_its_exchange_along(talk: Talk, ids: dict[str, int]) -> None:
    exchange = [ids["call"], ids["call2"], ids["result"], ids["result2"]]
    for key in ("call", "result2"):
        talk.agent.do(f"/forget messages {ids[key]}", asking=IN_CHAT)
        found = talk.tool(action="preview")
        assert [each["id"] for each in found["matching_messages"]] == [ids[key]]
        assert found["added"] == [each for each in exchange if each != ids[key]]
        talk.answers("Should I proceed?")
        done = talk.applied()
        assert (done["messages_filtered"], done["context_before"], done["context_after"]) == (4, 10, 6)
        event = selections.event(stored(talk.log), done["filter_event_id"])
        assert event is not None
        assert (event.data or {})["widened"] == found["added"]
        assert not {*exchange} & {*talk.ids}
        assert ids["text"] in talk.ids
        talk.agent.do(f"/restore {done['filter_event_id']}")
        talk.agent.do("/context drop " + str(talk.agent.context().turns(2)[0].id))
        talk.agent.do("/undo")
        assert len(talk.ids) == 10


def test_what_is_out_of_the_context_is_neither_found_nor_added(talk: Talk, ids: dict[str, int]) -> None:
    talk.agent.apply_filter("forget", [ids["weather"]])
    talk.agent.do(f"/remember messages {ids['weather']}-{ids['dry']}", asking=IN_CHAT)
    found = run(talk, action="preview")
    assert [each["id"] for each in found["matching_messages"]] == [ids["dry"]]
    assert (found["added"], found["everything_else"]) == ([], 7)


def test_the_system_and_the_planning_conversation_are_never_found(talk: Talk, ids: dict[str, int]) -> None:
    talk.agent.do("/forget messages 1-1000", asking=IN_CHAT)
    found = talk.tool(action="preview")
    assert {each["id"] for each in found["matching_messages"]} == {*ids.values()} - {ids["system"]}


@pytest.mark.parametrize("mode", ["forget", "remember"])
def test_another_mode_than_was_asked_for(talk: Talk, ids: dict[str, int], mode: str) -> None:
    other = "remember" if mode == "forget" else "forget"
    talk.agent.do(f"/{mode} messages {ids['weather']}", asking=IN_CHAT)
    args = {"action": "preview", "mode": other}
    refused(talk, args, f"the person asked to {mode}, not to {other}; preview with mode {mode}")
    talk.tool(action="preview", mode=mode)
    talk.says("yes")
    assert f"the preview was to {mode}, not to {other}" in talk.tool(action="apply", mode=other)["error"]
    assert talk.tool(action="apply", mode=mode)["messages_filtered"] == (1 if mode == "forget" else 8)


def test_criteria_that_mean_nothing(talk: Talk, ids: dict[str, int]) -> None:
    talk.agent.do("/forget the", asking=IN_CHAT)
    for criteria in (None, "", "   ", "\x00", "\ud800", "OR AND NOT", '"'):
        args = {"action": "preview", "criteria": criteria}
        refused(talk, args, "holds no word to look for")
    assert talk.planning is not None
    assert talk.planning.preview is None


@pytest.mark.parametrize(
    "criteria", ['weather"', "weather*", "weather OR (", "NEAR(weather dry)", "{weather}: ^-", "weather\x00\u2028\n"]
)
def test_criteria_are_no_query_language(talk: Talk, ids: dict[str, int], criteria: str) -> None:
    talk.agent.do("/forget something", asking=IN_CHAT)
    found = run(talk, action="preview", criteria=criteria)
    assert ids["weather"] in [each["id"] for each in found["matching_messages"]]


# Remember


def test_remember_keeps_system_messages_and_counts_everything_else(talk: Talk, ids: dict[str, int]) -> None:
    found = talk.forget(f"messages {ids['result']}-{ids['result2']}", "remember")
    assert (found["message_count"], found["everything_else"]) == (2, 5)
    assert found["added"] == [ids["call"], ids["call2"]]
    done = talk.applied()
    assert (done["messages_filtered"], done["context_before"], done["context_after"]) == (5, 10, 5)
    assert talk.ids == [ids[key] for key in ("system", "call", "call2", "result", "result2")]
    talk.agent.do(f"/restore {done['filter_event_id']}")
    assert {*ids.values()} < {*talk.ids}


@pytest.mark.parametrize("kept", [[], ["weather"]])
def test_keeping_fewer_ids_than_previewed_is_refused(talk: Talk, ids: dict[str, int], kept: list[str]) -> None:
    talk.forget(f"messages {ids['weather']}-{ids['dry']}", "remember")
    talk.says("yes")
    refused(talk, {"action": "apply", "message_ids": [ids[key] for key in kept]}, "not all the ids of the preview")
    done = talk.tool(action="apply", message_ids=[ids["dry"], ids["weather"], ids["dry"]])
    assert (done["messages_filtered"], done["context_after"]) == (7, 3)


@pytest.mark.parametrize("mode", ["forget", "remember"])
def test_a_preview_that_found_nothing_cannot_be_applied(talk: Talk, ids: dict[str, int], mode: str) -> None:
    found = talk.forget("zebras", mode)
    assert (found["message_count"], found["ranges"], found["matching_messages"]) == (0, [], [])
    talk.says("yes")
    nothing: list[dict[str, Any]] = [{}, {"message_ids": []}]
    for given in nothing:
        refused(talk, {"action": "apply", **given}, f"the preview found nothing to {mode}")


# Apply: a preview, then a person's yes


def test_apply_needs_a_planning_conversation(talk: Talk, ids: dict[str, int]) -> None:
    talk.says("yes")
    for action in ("preview", "apply"):
        refused(talk, {"action": action, "mode": "forget", "message_ids": [ids["dry"]]}, "no planning conversation")


def test_apply_needs_a_preview(talk: Talk, ids: dict[str, int]) -> None:
    talk.agent.do(f"/forget messages {ids['dry']}", asking=IN_CHAT)
    talk.says("yes")
    refused(talk, {"action": "apply", "message_ids": [ids["dry"]]}, "nothing was previewed yet; preview first")


def test_a_preview_that_failed_is_none(talk: Talk, ids: dict[str, int]) -> None:
    talk.agent.do(f"/forget messages {ids['dry']}", asking=IN_CHAT)
    talk.tool(action="preview", criteria="the")
    talk.says("yes")
    refused(talk, {"action": "apply"}, "nothing was previewed yet")


def asked(talk: Talk, ids: dict[str, int]) -> None:
    """Start a planning conversation in which the person is asked whether to proceed."""
    assert talk.forget(f"messages {ids['weather']}-{ids['dry']}")["message_count"] == 2


def not_agreed(talk: Talk) -> None:
    refused(talk, {"action": "apply"}, "the person has not agreed to the preview yet; show it, ask, and wait for a yes")


def test_nobody_answered(talk: Talk, ids: dict[str, int]) -> None:
    asked(talk, ids)
    not_agreed(talk)


def test_a_yes_in_front_of_the_preview(talk: Talk, ids: dict[str, int]) -> None:
    talk.agent.do(f"/forget messages {ids['dry']}", asking=IN_CHAT)
    talk.answers("Shall I look?")
    talk.says("Yes, proceed")
    talk.tool(action="preview")
    not_agreed(talk)


def test_a_yes_to_an_earlier_preview(talk: Talk, ids: dict[str, int]) -> None:
    asked(talk, ids)
    talk.says("Yes, proceed")
    talk.tool(action="preview", criteria=f"messages {ids['asked']}")
    not_agreed(talk)


def test_a_models_yes(talk: Talk, ids: dict[str, int]) -> None:
    asked(talk, ids)
    talk.answers("yes")
    talk.agent.append("user", "yes", actor="model")
    not_agreed(talk)


def test_a_systems_yes(talk: Talk, ids: dict[str, int]) -> None:
    asked(talk, ids)
    talk.agent.append("user", "yes", actor="system")
    talk.agent.append("system", "yes")
    talk.agent.append("tool", "yes")
    not_agreed(talk)


def test_a_notice_that_quotes_a_yes(talk: Talk, ids: dict[str, int]) -> None:
    asked(talk, ids)
    talk.agent.do("/mark HERE")
    talk.agent.append_tool_call("ask", {}, call_id="q", dialect="openai")
    talk.agent.do("/clear HERE", actor="model")
    talk.agent.append_tool_result("q", "yes", dialect="openai")
    assert talk.agent.context().messages[-1].kind == "user"
    refused(talk, {"action": "apply"}, "the context has changed since the preview")


def test_yes_and_then_wait(talk: Talk, ids: dict[str, int]) -> None:
    asked(talk, ids)
    talk.says("yes")
    for text in ("wait", "yes"):
        talk.says(text)
        refused(talk, {"action": "apply"}, "the preview was good for the person's next message only; preview again")


@pytest.mark.parametrize(
    "text",
    ["yes?", "yes, but keep the second", "no", "Show me again", "yesterday", "forget it", "", "y" * 200, "/forget"],
)
def test_a_text_that_is_no_plain_yes_applies_nothing(talk: Talk, ids: dict[str, int], text: str) -> None:
    asked(talk, ids)
    talk.says(text)
    refused(talk, {"action": "apply"}, "the person has said something else since the preview; preview again")


@pytest.mark.parametrize("text", ["Yes, proceed", "Yes", "ok", "ja, bitte", " YES! ", "go ahead", "👍"])
def test_a_plain_yes_applies_the_preview(talk: Talk, ids: dict[str, int], text: str) -> None:
    asked(talk, ids)
    talk.says(text)
    assert run(talk, action="apply")["messages_filtered"] == 2


def test_a_yes_elsewhere(talk: Talk, ids: dict[str, int]) -> None:
    asked(talk, ids)
    other = talk.log.agent("other")
    other.append("user", "yes")
    not_agreed(talk)
    with pytest.raises(CommandError, match="no planning conversation is open"):
        other.call_tool("filter_context", {"action": "apply"})


# Apply: ids are checked, never trusted


def test_unknown_and_foreign_message_ids(talk: Talk, ids: dict[str, int]) -> None:
    other = talk.log.agent("other").append("user", "elsewhere")
    asked(talk, ids)
    talk.says("yes")
    planned = talk.planning.first if talk.planning else 0
    for wrong in (other, planned, ids["asked"], ids["system"], 999_999, 2**63 - 1):
        args = {"action": "apply", "message_ids": [ids["weather"], wrong]}
        refused(talk, args, f"these ids were not in the preview: {wrong}; preview again, or leave them out")


def test_foreign_planning_ids(talk: Talk, ids: dict[str, int]) -> None:
    asked(talk, ids)
    other = talk.log.agent("other").append("user", "elsewhere")  # between the ids of the planning conversation
    talk.says("yes")
    first = talk.planning.first if talk.planning else 0
    assert first < other < talk.ids[-1]
    for wrong in (other, first - 1, ids["system"], 999_999):
        args = {"action": "apply", "planning_conversation_ids": [first, wrong]}
        refused(talk, args, f"these ids are not of the planning conversation: {wrong}; it began with {first}")


def test_planning_ids_do_not_decide_what_leaves(talk: Talk, ids: dict[str, int]) -> None:
    asked(talk, ids)
    first = talk.planning.first if talk.planning else 0
    talk.applied(planning_conversation_ids=[first])
    assert talk.ids == [value for key, value in ids.items() if key not in ("weather", "dry")]


def test_a_part_of_the_preview_and_ids_twice(talk: Talk, ids: dict[str, int]) -> None:
    asked(talk, ids)
    done = talk.applied(message_ids=[ids["dry"], ids["dry"]])
    assert (done["messages_filtered"], done["context_after"]) == (1, 9)
    assert ids["weather"] in talk.ids


def test_none_of_the_preview(talk: Talk, ids: dict[str, int]) -> None:
    asked(talk, ids)
    talk.says("yes")
    refused(talk, {"action": "apply", "message_ids": []}, "leave message_ids out")


def test_a_change_of_the_segments_ends_the_offer(talk: Talk, ids: dict[str, int]) -> None:
    asked(talk, ids)
    operation = talk.agent.apply_filter("forget", [ids["dry"]])
    talk.says("Yes, proceed")
    refused(talk, {"action": "apply"}, "the context has changed since the preview; preview again")
    talk.agent.do(f"/restore {operation}")
    refused(talk, {"action": "apply"}, "the context has changed since the preview; preview again")


def test_huge_lists(talk: Talk, ids: dict[str, int]) -> None:
    asked(talk, ids)
    talk.says("yes")
    most = 300_000 if DEEP else 30_000
    many = list(range(1, most))
    refused(talk, {"action": "apply", "message_ids": many}, f"and {most - 15} more")
    refused(talk, {"action": "apply", "planning_conversation_ids": many}, "more; it began with")
    done = talk.tool(action="apply", message_ids=[ids["dry"]] * (most // 3))
    assert done["messages_filtered"] == 1


WRONG_IDS: list[Any] = [None, "1", 1.0, True, [1], {}, 0, -1, 2**63, 10**5000, float("nan"), float("inf")]
HOSTILE: list[Any] = [
    *(None, [], "apply", 7, True, 1.5, [["action", "apply"]]),
    *({}, {"action": None}, {"action": "delete"}, {"action": ["apply"]}, {"action": {"apply": 1}}, {"action": "a\nb"}),
    *({"action": "apply", "x": 1}, {"action": "apply", "mode": "all"}, {"action": "apply", "mode": ""}),
    *({"Action": "apply"}, {"action": "APPLY"}, {"action": "\ud800"}, {"action": "preview", "\ud800": 1}),
    *(
        {"action": "preview", "criteria": 5},
        {"action": "preview", "criteria": ["x"]},
        {"action": "apply", "x" * 9999: 1},
    ),
    *({"action": "apply", "message_ids": value} for value in ("1", 1, {}, {"1": 1}, True)),
    *({"action": "apply", key: [value]} for key in ("message_ids", "planning_conversation_ids") for value in WRONG_IDS),
]


def test_hostile_arguments(talk: Talk, ids: dict[str, int]) -> None:
    asked(talk, ids)
    talk.says("yes")
    for args in HOSTILE:
        with case(args):
            refused(talk, args, "filter_context takes an object with action, mode, criteria")


def test_arguments_without_end(talk: Talk, ids: dict[str, int]) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    asked(talk, ids)
    refused(talk, {"action": "apply", "message_ids": deep}, "filter_context takes an object")
    refused(talk, {"action": deep}, "filter_context takes an object")


def test_there_is_no_other_tool(talk: Talk) -> None:
    for name in ("", "Filter_Context", "nope" * 100, "\ud800", "a\nb"):
        with pytest.raises(CommandError, match=r"there is no tool .*slash, filter_context") as caught:
            talk.agent.call_tool(name, {})
        assert "\n" not in str(caught.value)


def test_the_schema(talk: Talk) -> None:
    (spec,) = [tool for tool in talk.log.tools() if tool.name == "filter_context"]
    assert list(spec.parameters["properties"]) == [
        *("action", "mode", "criteria", "message_ids", "planning_conversation_ids"),
    ]
    assert spec.parameters["required"] == ["action"]


def test_the_offline_matcher_tells_no_progress_of_a_model(talk: Talk, ids: dict[str, int]) -> None:
    told: list[tuple[int, int]] = []
    talk.agent.do("/forget weather", asking=IN_CHAT)
    talk.tool(Asking(progress=lambda done, total: told.append((done, total))), action="preview")
    assert all(done <= total for done, total in told)
