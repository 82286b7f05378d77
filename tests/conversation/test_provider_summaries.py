"""The providers' own tools, citations and compactions: recorded, sent back and undone."""

from typing import Any

import msgspec
import pytest
import request_validators

import foldmark
from foldmark import Agent
from foldmark.core.assembly.eviction import OPAQUE
from foldmark.sending.rebuilding import rebuilt

Body = dict[str, Any]

SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", "url": "https://a.example", "title": "A", "encrypted_content": "ZW5j"}],
}
CITED = {
    "type": "text",
    "text": "It is seven.",
    "citations": [{"type": "web_search_result_location", "url": "https://a.example", "encrypted_index": "aW5k"}],
}
NEW_KIND = {"type": "oracle_block", "signs": ["a", {"b": None}], "after": 3}
CONTAINER = {"id": "container_1", "expires_at": "2030-01-01T00:00:00Z"}
SUMMED_UP: Body = {"type": "compaction", "content": "They asked for x.", "encrypted_content": "b3BhcXVl"}
SIGNED: Body = {"type": "compaction", "content": "They asked for x.", "signature": "c2ln", "tool_changes": []}
ITEM: Body = {"type": "compaction", "id": "cmp_1", "encrypted_content": "b3BhcXVl", "created_by": "server"}
ASKED: Body = {
    "type": "message",
    "id": "msg_0",
    "status": "completed",
    "role": "user",
    "content": [{"type": "input_text", "text": "What is x?"}],
}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ZW5j"}
WEB_CALL = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}}
NOTES = [{"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 0, "end_index": 5}]

CLAUDE, GPT = ("anthropic", "claude-opus-4-8"), ("openai_responses", "gpt-5")


@pytest.fixture
def agent() -> Agent:
    agent = foldmark.open(":memory:").agent("default")
    agent.append("user", "What is x?", created_at="2026-11-01T00:00:00Z")
    return agent


def answered(*content: Body, stop: str = "end_turn", **more: Any) -> Body:
    return {"type": "message", "role": "assistant", "content": list(content), "stop_reason": stop, **more}


def response(*output: Body) -> Body:
    return {"object": "response", "status": "completed", "output": list(output)}


def said(text: str, **more: Any) -> Body:
    part = {"type": "output_text", "text": text, "annotations": more.pop("notes", [])}
    return {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [part], **more}


def text(words: str) -> Body:
    return {"type": "text", "text": words}


def unmarked(value: Any) -> Any:
    """Return the value without cache marks."""
    if isinstance(value, dict):
        return {key: unmarked(each) for key, each in value.items() if key != "cache_control"}
    return [unmarked(each) for each in value] if isinstance(value, list) else value


def sent(agent: Agent, provider: str, model: str) -> Body:
    """Return the next request after checking that its provider accepts it and that the log can rebuild it."""
    request = agent.request(provider, model)
    assert request_validators.VALIDATORS[provider](request.body) == []
    again = rebuilt(agent, agent.record_sent(request).number)
    assert (again.verdict, again.request.bytes) == ("identical", request.bytes)
    return dict(unmarked(request.body))


def words(body: Body | list[Body]) -> str:
    return msgspec.json.encode(body).decode()


# Blocks of an answer


def test_every_block_of_an_answer_goes_back_byte_for_byte_in_its_place(agent: Agent) -> None:
    content = [text("I look."), SEARCH, FOUND, text("So: "), CITED, NEW_KIND, text("Done.")]
    agent.append_answer("anthropic", answered(*content, container=CONTAINER))
    agent.end_turn()
    for question in ("And y?", "And z?"):  # also after their turn is over
        agent.append("user", question, created_at="2026-11-02T00:00:00Z")
        body = sent(agent, *CLAUDE)
        assert words(body["messages"][1]["content"]) == words(content)
        assert body["container"] == "container_1"
        agent.append("assistant", "Yes.", created_at="2026-11-02T00:00:00Z")
        agent.end_turn()


def test_a_search_in_an_imported_session_goes_back_as_it_came(agent: Agent) -> None:
    for block in (SEARCH, FOUND):
        agent.append("assistant", "", data={"blocks": [{**block, "imported": True}]}, dialect="anthropic")
    agent.append("user", "And y?")
    assert sent(agent, *CLAUDE)["messages"][1]["content"] == [SEARCH, FOUND]


def test_text_crosses_dialects_and_blocks_do_not(agent: Agent) -> None:
    agent.append_answer("anthropic", answered(text("I look."), SEARCH, FOUND, CITED, container=CONTAINER))
    for other in (GPT, ("openai", "gpt-5"), ("gemini", "gemini-3-pro")):
        body = words(sent(agent, *other))
        assert "I look.It is seven." in body
        assert not any(piece in body for piece in ("srvtoolu", "citations", "container"))


def test_an_expired_container_is_not_named(agent: Agent) -> None:
    agent.append_answer("anthropic", answered(text("Done."), container=CONTAINER))
    agent.append("user", "Again", created_at="2031-01-01T00:00:00Z")
    assert "container" not in sent(agent, *CLAUDE)


def test_a_call_by_a_program_is_sent_back_as_such(agent: Agent) -> None:
    run = {"type": "server_tool_use", "id": "srvtoolu_2", "name": "code_execution", "input": {"code": "look()"}}
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_2"}
    call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}, "caller": caller}
    agent.append_answer("anthropic", answered(text("I run."), run, call, stop="tool_use"))
    agent.append_tool_result("toolu_1", "seven", dialect="anthropic")
    assert sent(agent, *CLAUDE)["messages"][1]["content"] == [text("I run."), run, call]


def test_a_tool_of_the_provider_without_its_other_half_is_left_out(agent: Agent) -> None:
    agent.append_answer("anthropic", answered(text("I look."), SEARCH, stop="pause_turn"))
    agent.append("user", "Well?")
    assert "srvtoolu" not in words(sent(agent, *CLAUDE))
    agent.append_answer("anthropic", answered(FOUND, text("Seven.")))
    body = sent(agent, *CLAUDE)
    assert body["messages"][1]["content"] == [text("I look."), SEARCH]
    assert body["messages"][3]["content"] == [FOUND, text("Seven.")]


def test_items_messages_and_phases_of_a_response_keep_their_order(agent: Agent) -> None:
    first, last = said("I look.", phase="commentary"), said("It is seven.", phase="final_answer", notes=NOTES)
    agent.request(*GPT)
    agent.append_answer("openai_responses", response(REASONING, first, WEB_CALL, last))
    agent.end_turn()
    agent.append("user", "And y?")
    _, thought, one, two, three, _ = sent(agent, *GPT)["input"]
    assert thought["type"] == "reasoning"
    assert (one["phase"], one["content"][0]["text"]) == ("commentary", "I look.")
    assert words(two) == words(WEB_CALL)
    assert (three["phase"], three["content"][0]["annotations"]) == ("final_answer", NOTES)
    assert three["content"][0]["text"] == "It is seven."


def test_a_clients_call_without_its_output_is_left_out(agent: Agent) -> None:
    call = {"type": "shell_call", "call_id": "c9", "action": {"commands": ["ls"]}}
    agent.append_answer("openai_responses", response(call, said("Done.")))
    assert "shell_call" not in words(sent(agent, *GPT))


def test_code_that_google_ran_goes_back_in_its_place(agent: Agent) -> None:
    ran = [
        {"executableCode": {"language": "PYTHON", "code": "3 + 4"}, "thoughtSignature": "c2ln"},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "7"}},
    ]
    content = {"role": "model", "parts": [{"text": "I count. "}, *ran, {"text": "Seven."}]}
    agent.append_answer("gemini", {"candidates": [{"content": content, "finishReason": "STOP"}]})
    agent.end_turn()
    agent.append("user", "And y?")
    body = agent.request("gemini", "gemini-3-pro").body
    assert words(body["contents"][1]) == words(content)
    assert "executableCode" not in words(sent(agent, *CLAUDE))


def test_annotations_of_a_chat_completion_are_sent_back_where_allowed(agent: Agent) -> None:
    message = {"role": "assistant", "content": "Seven.", "annotations": NOTES}
    agent.append_answer("openrouter", {"choices": [{"message": message, "finish_reason": "stop"}]})
    agent.append("user", "And y?")
    assert agent.request("openrouter", "other/model").body["messages"][-2] == message
    assert "annotations" not in words(sent(agent, "openai", "gpt-5"))


# Compactions

MADE: list[tuple[str, str, Body, list[Body]]] = [
    (*CLAUDE, answered(SUMMED_UP, text("Seven.")), [SUMMED_UP]),
    (*CLAUDE, answered(SIGNED, stop="compaction"), [SIGNED]),
    (*GPT, response(ITEM, said("Seven.")), [ITEM]),
    (
        *GPT,
        {"object": "response.compaction", "output": [ASKED, ITEM]},
        [ASKED, ITEM],
    ),
]


@pytest.mark.parametrize(("provider", "model", "answer", "items"), MADE)
def test_only_its_own_provider_reads_a_compaction(
    agent: Agent, provider: str, model: str, answer: Body, items: list[Body]
) -> None:
    agent.append("assistant", "Let me think.")
    summary = agent.append_answer(provider, answer)[0]
    operation = agent.do("/operations").data["operations"][-1]
    assert (operation["id"], operation["operation"], operation["actor"]) == (summary, "summary", "system")
    assert agent.context().messages[0].kind == "summary"
    agent.append("user", "And y?")

    body = sent(agent, provider, model)
    begin = body["messages"][0]["content"] if provider == "anthropic" else body["input"]
    assert words(begin[: len(items)]) == words(items)
    assert "Let me think." not in words(body)
    assert words(body).count(items[-1].get("content") or "b3BhcXVl") == 1

    for other in {CLAUDE, GPT, ("openai", "gpt-5"), ("gemini", "gemini-3-pro")} - {(provider, model)}:
        told = words(sent(agent, *other))
        assert "Let me think." in told
        assert told.count("What is x?") == 1
        assert not any(piece in told for piece in ("compaction", "They asked", OPAQUE))

    agent.do(f"/restore {summary}")
    restored = words(sent(agent, provider, model))
    assert "Let me think." in restored
    assert "compaction" not in restored
    back = agent.do("/operations").data["operations"][-1]["id"]
    agent.do(f"/restore {back}")
    assert "Let me think." not in words(sent(agent, provider, model))


def test_an_unsigned_compaction_is_sent_with_the_edit_that_made_it(agent: Agent) -> None:
    agent.append_answer("anthropic", answered(SUMMED_UP, text("Seven.")))
    assert sent(agent, *CLAUDE)["context_management"] == {"edits": [{"type": "compact_20260112"}]}
    agent.append_answer("anthropic", answered(SIGNED))
    assert "context_management" not in sent(agent, *CLAUDE)


def test_a_second_compaction_also_replaces_the_first(agent: Agent) -> None:
    (first, _) = agent.append_answer("anthropic", answered(SUMMED_UP, text("Seven.")))
    agent.append("user", "And y?")
    later = {**SUMMED_UP, "content": "They asked for x and y."}
    (second, _) = agent.append_answer("anthropic", answered(later, text("Eight.")))
    body = words(sent(agent, *CLAUDE))
    assert body.count("compaction") == 1
    assert "x and y" in body
    other = words(sent(agent, *GPT))
    assert [other.count(each) for each in ("What is x?", "Seven.", "And y?", "Eight.", "They asked")] == [1, 1, 1, 1, 0]
    agent.do(f"/restore {first}")
    assert "What is x?" not in words(sent(agent, *CLAUDE))  # the second one still covers it
    agent.do(f"/restore {second}")
    body = words(sent(agent, *CLAUDE))
    assert [body.count(each) for each in ("What is x?", "Seven.", "compaction")] == [1, 1, 0]


def test_text_before_a_compaction_in_its_answer_is_summarized_with_it(agent: Agent) -> None:
    content = [text("I look."), SEARCH, FOUND, SUMMED_UP, text("So: "), CITED]
    before, _, _ = agent.append_answer("anthropic", answered(*content))
    assert before not in [each.id for each in agent.context().messages]
    body = sent(agent, *CLAUDE)
    assert words(body["messages"][0]["content"]) == words([SUMMED_UP, text("So: "), CITED])


def test_a_compaction_may_be_the_first_event_and_is_read_as_text_by_others() -> None:
    agent = foldmark.open(":memory:").agent("default")
    agent.append_answer("anthropic", answered(SUMMED_UP, text("Seven.")))
    agent.append("user", "And y?")
    assert sent(agent, *CLAUDE)["messages"][0]["content"][0] == SUMMED_UP
    assert "They asked for x." in words(sent(agent, *GPT))


def test_a_compaction_that_failed_replaces_nothing(agent: Agent) -> None:
    agent.append_answer("anthropic", answered({"type": "compaction", "content": None}, text("Seven.")))
    assert "summary" not in [each.kind for each in agent.context().messages]
    assert "What is x?" in words(sent(agent, *CLAUDE))


def test_a_kept_turn_follows_the_summary_of_older_messages() -> None:
    from foldmark.core.segments import Segment
    from foldmark.operations.summaries import provider_summary

    agent = foldmark.open(":memory:").agent("default")
    for number in range(4):
        agent.append("user", f"Question {number}")
        agent.append("assistant", f"Answer {number}")
        agent.end_turn()
    older = Segment(agent.id, 1, [each.id for each in agent.context().messages][3])
    agent.operate(
        lambda moment, at: provider_summary(moment, at, {"anthropic": [SUMMED_UP]}, [older]),
        content="They asked for x.",
    )
    agent.append("user", "And now?")
    body = sent(agent, *CLAUDE)
    assert body["messages"][0]["content"] == [SUMMED_UP]
    assert [each["content"][0]["text"] for each in body["messages"][1:4]] == ["Question 2", "Answer 2", "Question 3"]
    assert "Answer 1" not in words(body)
    assert "Answer 1" in words(sent(agent, *GPT))


def test_pinned_turns_follow_a_compaction(agent: Agent) -> None:
    """The API refuses a compaction block that is not the first."""
    agent.append("assistant", "Let me think.")
    agent.end_turn()
    agent.do("/mark M")
    agent.append("user", "And y?")
    agent.operate(lambda moment, at: _after(moment, at, "M"), content="They asked for y.")
    agent.append("user", "And z?")
    first = sent(agent, *CLAUDE)["messages"]
    assert first[0]["content"][0] == SUMMED_UP
    assert first[1]["content"][0] == text("What is x?")


def _after(moment: Any, at: Any, mark: str) -> Any:
    from foldmark.operations import summaries

    return msgspec.structs.replace(summaries.summary(moment, at, mark), native={"anthropic": [SUMMED_UP]})
