"""Every item of the SDK comes back unchanged and is recorded as the corresponding message in the log [SPEC 1, 2]."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from request_validators import VALIDATORS
from sdk_cases import of_kinds
from sdk_sessions import KINDS, call, now, output, said, session, thinking, user

from foldmark.core.errors import CommandError

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGE = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"}
WEB_IMAGE = {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "low"}
BLOCK = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}


class Case(NamedTuple):
    """One or more items, and their messages in the log: (kind, text, name or call id) of each."""

    items: list[Any]
    messages: list[tuple[str, str, str | None]]


def text_parts(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "input_text", "text": text} for text in texts]


REFUSAL = {**said(""), "content": [{"type": "refusal", "refusal": "I must not."}]}
CITED = {**said("See there."), "phase": "final_answer"}
CITED["content"][0]["annotations"] = [{"type": "url_citation", "url": "https://example.org", "title": "T"}]
ACTION = {"type": "click", "button": "left", "x": 1, "y": 2}
SCREEN = {"type": "computer_screenshot", "image_url": f"data:image/png;base64,{PNG}"}

CASES = {
    "user": Case([user("hi")], [("user", "hi", None)]),
    "typed user": Case([{"type": "message", **user("hi")}], [("user", "hi", None)]),
    "parts": Case([{"role": "user", "content": text_parts("a", "b")}], [("user", "a\nb", None)]),
    "image": Case([{"role": "user", "content": [*text_parts("see"), IMAGE]}], [("user", "see", None)]),
    "only images": Case([{"role": "user", "content": [IMAGE, WEB_IMAGE]}], [("user", "", None)]),
    "file": Case(
        [{"role": "user", "content": [*text_parts("f"), {"type": "input_file", "file_id": "file_1"}]}],
        [("user", "f", None)],
    ),
    "system": Case([{"role": "system", "content": "Be brief."}], [("system", "Be brief.", None)]),
    "developer": Case([{"role": "developer", "content": "Be kind."}], [("system", "Be kind.", None)]),
    "easy answer": Case([{"role": "assistant", "content": "yes"}], [("assistant", "yes", None)]),
    "answer": Case([said("yes")], [("assistant", "yes", None)]),
    "refusal": Case([REFUSAL], [("assistant", "I must not.", None)]),
    "phase, citation": Case([CITED], [("assistant", "See there.", None)]),
    "reasoning, answer": Case([thinking(), said("yes")], [("assistant", "yes", None)]),
    "reasoning, call": Case(
        [thinking(1), thinking(2), call("a"), output("a")],
        [("tool_call", '{"city":"Oslo"}', "weather"), ("tool_result", "rain", "a")],
    ),
    "reasoning alone": Case([thinking()], [("assistant", "", None)]),
    "reasoning, user": Case([thinking(), user("hm")], [("assistant", "", None), ("user", "hm", None)]),
    "open reasoning": Case(
        [
            {"type": "reasoning", "id": "rs_9", "summary": [], "content": [{"type": "reasoning_text", "text": "t"}]},
            said("x"),
        ],
        [("assistant", "x", None)],
    ),
    "spaced arguments": Case(
        [call("a", arguments='{ "city" : "Oslo" }')], [("tool_call", '{"city":"Oslo"}', "weather")]
    ),
    "no arguments": Case([call("a", arguments="")], [("tool_call", "{}", "weather")]),
    "broken arguments": Case([call("a", arguments='{"city":')], [("tool_call", '"{\\"city\\":"', "weather")]),
    "handoff": Case(
        [call("h", "transfer_to_spanish", "{}"), output("h", '{"assistant": "Spanish"}')],
        [("tool_call", "{}", "transfer_to_spanish"), ("tool_result", '{"assistant": "Spanish"}', "h")],
    ),
    "parts of a result": Case(
        [call("a"), output("a", [*text_parts("rain"), IMAGE])],
        [("tool_call", '{"city":"Oslo"}', "weather"), ("tool_result", "rain", "a")],
    ),
    "custom tool": Case(
        [
            {"type": "custom_tool_call", "id": "ct_1", "call_id": "c", "name": "sql", "input": "SELECT 1"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": "1"},
        ],
        [("tool_call", '{"input":"SELECT 1"}', "sql"), ("tool_result", "1", "c")],
    ),
    "computer": Case(
        [
            {"type": "computer_call", "id": "cu_1", "call_id": "c", "action": ACTION, "status": "completed"},
            {"type": "computer_call_output", "call_id": "c", "output": SCREEN},
        ],
        [("tool_call", json.dumps(ACTION, separators=(",", ":")), "computer"), ("tool_result", "", "c")],
    ),
    "local shell": Case(
        [
            {
                "type": "local_shell_call",
                "id": "ls_1",
                "call_id": "c",
                "action": {"command": ["ls"]},
                "status": "completed",
            },
            {"type": "local_shell_call_output", "id": "c", "output": "a b"},
        ],
        [("tool_call", '{"command":["ls"]}', "local_shell"), ("tool_result", "a b", "c")],
    ),
    "shell": Case(
        [
            {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
            {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "a", "stderr": ""}]},
        ],
        [
            ("tool_call", '{"commands":["ls"]}', "shell"),
            ("tool_result", '[{"stdout":"a","stderr":""}]', "c"),
        ],
    ),
    "approval": Case(
        [
            {"type": "mcp_approval_request", "id": "ap_1", "name": "rm", "arguments": '{"p":1}', "server_label": "fs"},
            {"type": "mcp_approval_response", "approval_request_id": "ap_1", "approve": False, "reason": "no"},
        ],
        [("tool_call", '{"p":1}', "rm"), ("tool_result", "Refused. no", "ap_1")],
    ),
    "web search": Case(
        [{"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}}],
        [("assistant", "", None)],
    ),
    "file search": Case(
        [
            {
                "type": "file_search_call",
                "id": "fs_1",
                "queries": ["q"],
                "results": [{"text": "found"}],
                "status": "completed",
            }
        ],
        [("assistant", "", None)],
    ),
    "code": Case(
        [
            {
                "type": "code_interpreter_call",
                "id": "ci_1",
                "code": "1+1",
                "container_id": "k",
                "outputs": [{"logs": "2"}],
            }
        ],
        [("assistant", "", None)],
    ),
    "image generation": Case(
        [{"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PNG}],
        [("assistant", "", None)],
    ),
    "MCP": Case(
        [
            {
                "type": "mcp_call",
                "id": "m_1",
                "name": "grep",
                "arguments": '{"q":"x"}',
                "server_label": "fs",
                "output": "hit",
            }
        ],
        [("assistant", "", None)],
    ),
    "MCP, failed": Case(
        [
            {
                "type": "mcp_call",
                "id": "m_1",
                "name": "grep",
                "arguments": "{}",
                "server_label": "fs",
                "output": None,
                "error": "no server",
            }
        ],
        [("assistant", "", None)],
    ),
    "MCP tools": Case(
        [{"type": "mcp_list_tools", "id": "l_1", "server_label": "fs", "tools": [{"name": "grep"}]}],
        [("assistant", "", None)],
    ),
    "two of a provider's tools": Case(
        [
            thinking(1),
            {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}},
            {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}},
            thinking(2),
            said("so"),
        ],
        [
            ("assistant", "", None),
            ("assistant", "", None),
            ("assistant", "so", None),
        ],
    ),
    "reference": Case([{"type": "item_reference", "id": "msg_1"}], [("assistant", "", None)]),
    "of the future": Case(
        [{"type": "hologram", "content": "in the air", "x": [1, {"y": None}]}], [("assistant", "", None)]
    ),
    "call of the future": Case(
        [
            {"type": "teleport_call", "call_id": "t_1", "to": "Oslo"},
            {"type": "teleport_call_output", "call_id": "t_1", "output": "there"},
        ],
        [("tool_call", '{"to":"Oslo"}', "teleport"), ("tool_result", "there", "t_1")],
    ),
    "result without a call": Case([output("nobody")], [("tool_result", "rain", "nobody")]),
    "numbers": Case([{"x": 2**80, "y": 1e400, "z": 0.1, "type": "hologram"}], [("assistant", "", None)]),
    "strange members": Case(
        [
            {"role": ["user"], "content": 5},
            {"type": 7},
            {"type": "function_call"},
            {"role": "user"},
            {},
            "text",
            5,
            [1],
        ],
        [
            ("assistant", "", None),
            ("assistant", "", None),
            ("assistant", "", None),
            ("user", "", None),
            ("assistant", "", None),
            ("assistant", "text", None),
            ("assistant", "", None),
            ("assistant", "", None),
        ],
    ),
}


@pytest.mark.parametrize(("kind", "name"), of_kinds([*CASES]))
def test_it_comes_back_as_it_was(kind: str, name: str, tmp_path: Path) -> None:
    case = CASES[name]
    with session(kind, tmp_path) as talk:
        now(talk.add_items([user("first"), *case.items]))
        assert json.dumps(now(talk.get_items())) == json.dumps([user("first"), *case.items])
        assert [now(talk.pop_item()) for _ in case.items] == case.items[::-1]
        assert now(talk.get_items()) == [user("first")]
        if kind == "foldmark":
            assert [message.content for message in talk.agent.context().messages if message.content] == ["first"]


def test_failed_results_are_marked(tmp_path: Path) -> None:
    items = [call("a"), {**output("a"), "status": "incomplete"}, call("b"), output("b")]
    with session("foldmark", tmp_path) as talk:
        now(talk.add_items(items))
        results = [e.data or {} for e in talk.agent.context().messages if e.kind == "tool_result"]
        assert [result.get("is_error", False) for result in results] == [True, False]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_it_is_a_message_of_the_log_with_which_foldmark_could_go_on(case: Case, tmp_path: Path) -> None:
    with session("foldmark", tmp_path) as talk:
        now(talk.add_items([user("first"), *case.items, user("and now?")]))
        found = talk.agent.context().messages[1:-1]
        named = [(e.data or {}).get("name") or e.call_id or None for e in found]
        assert [(e.kind, e.content, name) for e, name in zip(found, named, strict=True)] == case.messages
        for provider in ("openai_responses", "openai"):
            body = talk.agent.request(provider, "gpt-5").body
            assert VALIDATORS[provider](body) == []
            sent = json.dumps(body, ensure_ascii=False)
            assert all(name in sent for kind, _, name in case.messages if kind == "tool_call" and name)


def test_images_and_thinking_are_sent_by_foldmark_too(tmp_path: Path) -> None:
    with session("foldmark", tmp_path) as talk:
        now(talk.add_items([{"role": "user", "content": [*text_parts("see"), IMAGE, WEB_IMAGE]}]))
        (message,) = talk.agent.context().messages
        linked = {"type": "image", "source": {"type": "url", "url": WEB_IMAGE["image_url"]}}
        assert (message.data or {})["blocks"] == [BLOCK, linked]
        assert IMAGE["image_url"] in json.dumps(talk.agent.request("openai_responses", "gpt-5").body)
        now(talk.add_items([thinking(), said("a dot")]))
        assert "secret-1" in json.dumps(talk.agent.request("openai_responses", "gpt-5").body)


def test_a_document_that_came_from_elsewhere_is_a_file_to_the_sdk(tmp_path: Path) -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK"}
    with session("foldmark", tmp_path) as talk:
        block = {"type": "document", "source": source, "title": "plan.pdf"}
        talk.agent.append("user", "read", data={"blocks": [block, BLOCK]})
        file = {"filename": "plan.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjQK"}
        (item,) = now(talk.get_items())
        assert item["content"] == [*text_parts("read"), {"type": "input_file", **file}, IMAGE]


def test_nothing_large_is_stored_twice(tmp_path: Path) -> None:
    url, text = "data:image/png;base64," + "iVBORw0KGgo=" * 100_000, "word " * 100_000
    with session("foldmark", tmp_path) as talk:
        items = [
            {"role": "user", "content": [*text_parts(text), {**IMAGE, "image_url": url}]},
            call("a"),
            output("a", text),
        ]
        now(talk.add_items(items))
        assert talk.agent.context().size.tokens < (len(url) + 2 * len(text)) / 4 * 1.01


def test_only_what_a_log_cannot_hold_is_kept_as_text(tmp_path: Path) -> None:
    for name, case in CASES.items():
        with session("foldmark", tmp_path, name) as talk:
            now(talk.add_items(case.items))
            told = [(event.data or {})["openai_agents"] for event in talk.agent.context().messages]
            assert any("json" in about for about in told) == (name == "numbers"), name


def test_actor_and_dialect_follow_from_the_item(tmp_path: Path) -> None:
    with session("foldmark", tmp_path) as talk:
        now(talk.add_items([user("hi"), call("a"), output("a"), said("rain")]))
        found = talk.agent.context().messages
        assert [event.actor for event in found] == ["human", "model", "system", "model"]
        assert [event.dialect for event in found] == ["openai"] * 4
        assert [found[2].answers, found[1].call_id] == [found[1].id, "a"]
        assert {hit.event_id for hit in talk.log.search("rain")} == {found[2].id, found[3].id}


@pytest.mark.parametrize("kind", KINDS)
def test_items_come_back_as_json_values(kind: str, tmp_path: Path) -> None:
    with session(kind, tmp_path) as talk:
        now(talk.add_items([{"role": "user", "content": tuple(text_parts("hi")), 5: (1, None)}]))
        assert now(talk.get_items()) == [{"role": "user", "content": text_parts("hi"), "5": [1, None]}]
        if kind == "foldmark":
            assert talk.agent.context().messages[0].content == "hi"


@pytest.mark.parametrize(
    "data",
    [
        {"openai_agents": 5},
        {"openai_agents": {}},
        {"openai_agents": {"json": "[]"}},
        {"openai_agents": "json"},
        {"openai_agents": {"json": "{"}},
        {"openai_agents": {"json": "5"}},
        {"openai_agents": {"json": 5}},
        {"openai_agents": {"as": {"a": {"repeats": 3}}}},
        {"openai_agents": {"as": {"repeats": "x"}}},
        {"openai_agents": {"as": {"repeats": 0}}, "blocks": [5]},
        {"openai_agents": {"as": {"role": "user", "content": None}, "holes": [[["content"], None]]}},
        {"openai_agents": [], "blocks": 5},
        {"openai_agents": {"before": "x"}, "blocks": [1]},
    ],
    ids=str,
)
def test_somebody_elses_data_under_our_key(data: dict[str, Any], tmp_path: Path) -> None:
    with session("foldmark", tmp_path) as talk:
        talk.agent.append("user", "hello", data=data)
        assert now(talk.get_items()) == [user("hello")]
        assert now(talk.pop_item()) == user("hello")


def test_messages_of_foldmark_as_items(tmp_path: Path) -> None:
    with session("foldmark", tmp_path) as talk:
        agent = talk.agent
        agent.append("system", "Be brief.")
        agent.append("user", "See.", data={"blocks": [BLOCK]})
        agent.append("assistant", "I look.")
        agent.append_tool_call("read file", {"path": "x"}, call_id="c1", dialect="openai")
        agent.append_tool_result("c1", "text", dialect="openai")
        agent.append_tool_call("Read", {"path": "x"}, call_id="c2", dialect="anthropic")
        agent.append_tool_result("c2", "not ours", dialect="anthropic")
        agent.append("tool", "It rained.")
        agent.append("assistant", "cut", interrupted=True)
        agent.append("assistant", "  ")
        items = now(talk.get_items())
        assert items == [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [*text_parts("See."), IMAGE]},
            {"role": "assistant", "content": "I look."},
            {"type": "function_call", "call_id": "c1", "name": items[3]["name"], "arguments": '{"path":"x"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "text"},
            {"role": "user", "content": "[Message of a tool:]\nIt rained."},
            {"role": "assistant", "content": "cut\n\n[Interrupted.]"},
        ]
        assert VALIDATORS["openai_responses"]({"model": "gpt-5", "input": [*items, user("go on")]}) == []


def test_ids_of_sessions(tmp_path: Path) -> None:
    with session("foldmark", tmp_path, "\ud800") as talk:
        now(talk.add_items([user("hi")]))
    with pytest.raises(CommandError, match="id must be a text"):
        session("foldmark", tmp_path, 5).__enter__()  # type: ignore[arg-type]
