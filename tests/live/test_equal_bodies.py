"""Without an operation, the provider gets the client's own bytes, whatever they contain, although they are recorded."""

import hashlib
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2 as httpx
import pytest
from record_bodies import recorded
from test_gateway import Upstream, upstream  # noqa: F401 - a fixture

import foldmark
from foldmark.live.gateway import Gateway
from foldmark.live.sessions import LONGEST, Sessions
from patience import LIMIT
from sampled import DEEP

BODIES = 1000 if DEEP else 60
OTHERS = 250 if DEEP else 20
"""Bodies on each wire but the first."""
MODELS = "/v1beta/models/gemini-3.8-flash"
PARTS = [
    '"cache_control":{"type":"ephemeral"}',
    '\\",\\"cache_control\\":{\\"type\\":\\"ephemeral\\"}',
    "\\u2028\\ud800 \\udc00\\u0000",
    "\u2028\u2029\ufeff é 🦊",
    "said ::no",
    "[TRUNCATED",
    "### STATE\\nGoal: x",
    "<system-reminder>x</system-reminder>",
]


def text(chance: random.Random) -> str:
    """Return a random JSON string."""
    inner = "".join(chance.choice([*PARTS[1:], "word ", "\\n", "\\\\"]) for _ in range(chance.randint(0, 6)))
    return f'"{inner}"'


def block(chance: random.Random, number: int) -> str:
    space = chance.choice(["", " ", "\n\t"])
    mark = chance.choice(["", f',{space}"cache_control":{space}{{"type":"ephemeral"}}', f",{PARTS[0]}"])
    kinds = [
        f'{{"type":"text","text":{text(chance)}{mark}}}',
        f'{{{PARTS[0]},"type":"text","text":{text(chance)}}}',
        f'{{"type":"tool_use","id":"t{number}","name":"Read","input":{{"n":1.0,"big":{10**30},"f":1e-7}}{mark}}}',
        f'{{"type":"tool_result","tool_use_id":"t{number - 1}","content":{text(chance)}{mark}}}',
        f'{{"type":"thinking","thinking":{text(chance)},"signature":"s"}}',
        '{"type":"unheard-of","x":[[[[]]]],"x":2}',
        "null",
    ]
    return chance.choice(kinds[:-1] if chance.random() < 0.99 else kinds)


def body(chance: random.Random) -> bytes:
    found = []
    for number in range(chance.randint(0, 8)):
        role = chance.choice(["user", "assistant", "user", "system"])
        blocks = ",".join(block(chance, number) for _ in range(chance.randint(0, 3)))
        content = text(chance) if chance.random() < 0.3 else f"[{blocks}]"
        order = [f'"role":"{role}"', f'"content":{content}']
        found.append(f"{{{', '.join(order if chance.random() < 0.8 else order[::-1])}}}")
    rest = ['"model":"claude-sonnet-4-6"', f'"messages": [{" , ".join(found)}]', '"tools":[{"name":"Read"}]']
    chance.shuffle(rest)
    return f"{{{','.join(rest)}}}".encode()


def item(chance: random.Random, number: int) -> str:
    """Return a random item of the Responses API, often one that belongs to its neighbours."""
    spoken = f'{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":{text(chance)}}}]}}'
    kinds = [
        f'{{"type":"message","role":"user","content":[{{"type":"input_text","text":{text(chance)}}}]}}',
        f'{{"role":"user", "content":{text(chance)}}}',
        f'{{"type":"message","role":"developer","content":[{{"text":{text(chance)},"type":"input_text"}}]}}',
        spoken,
        f'{{"type":"reasoning","id":"rs_{number}","summary":[],"encrypted_content":{text(chance)}}}',
        f'{{"type":"function_call","call_id":"c{number}","name":"Read","arguments":{text(chance)},"n":1.0}}',
        f'{{"call_id":"c{number - 1}","type":"function_call_output" ,"output":{text(chance)}}}',
        f'{{"type":"custom_tool_call","call_id":"c{number}","name":"exec","input":{text(chance)}}}',
        f'{{"type":"custom_tool_call_output","call_id":"c{number - 1}","output":[{{"text":{text(chance)}}}]}}',
        '{"type":"web_search_call","id":"ws_1","action":{"big":1e999}}',
        '{"type":"unheard-of","x":[[[[]]]],"x":2}',
        '{"type":"message","role":"user","content":[]}',
        "null",
    ]
    return chance.choice(kinds[:-1] if chance.random() < 0.99 else kinds)


def items_body(chance: random.Random) -> bytes:
    found = [item(chance, number) for number in range(chance.randint(0, 12))]
    rest = ['"model":"gpt-5.1"', f'"input": [{" , ".join(found)}]', '"tools":[{"name":"Read"}]']
    chance.shuffle(rest)
    return f"{{{','.join(rest)}}}".encode()


def chat_message(chance: random.Random, number: int) -> str:
    """Return a random message of Chat Completions."""
    call = f'{{"id":"c{number}","type":"function","function":{{"name":"Read","arguments":{text(chance)}}}}}'
    marked = f'{{"type":"text","text":{text(chance)}, {PARTS[0]}}}'
    kinds = [
        f'{{"role":"user","content":{text(chance)}}}',
        f'{{"content":[{marked},{{"type":"image_url","image_url":{{"url":"x"}}}}],"role":"user"}}',
        f'{{"role":"assistant", "content":{text(chance)},"reasoning_content":{text(chance)}}}',
        f'{{"role":"assistant","content":null,"tool_calls":[{call}]}}',
        f'{{"role":"assistant","tool_calls":[{call} , {call}],"n":1.0,"big":{10**30}}}',
        f'{{"role":"tool","tool_call_id":"c{number - 1}","content":{text(chance)}}}',
        f'{{"tool_call_id":"c{number - 2}" ,"role":"tool","content":[{marked}]}}',
        f'{{"role":"developer","content":{text(chance)}}}',
        f'{{"role":"function","name":"x","content":{text(chance)}}}',
        '{"role":"unheard-of","content":[[[[]]]],"x":2}',
        "null",
    ]
    return chance.choice(kinds[:-1] if chance.random() < 0.99 else kinds)


def chat_body(chance: random.Random) -> bytes:
    system = [f'{{"role":"system", "content":{text(chance)}}}' for _ in range(chance.randint(0, 2))]
    found = [*system, *(chat_message(chance, number) for number in range(chance.randint(0, 12)))]
    rest = ['"model":"gpt-5.1"', f'"messages": [{" , ".join(found)}]', '"tools":[{"type":"function"}]']
    chance.shuffle(rest)
    return f"{{{','.join(rest)}}}".encode()


def part(chance: random.Random, number: int) -> str:
    """Return a random part of a content of generateContent."""
    call = f'"name":"read_file","id":"c{number}"'
    kinds = [
        f'{{"text":{text(chance)}}}',
        f'{{"text":{text(chance)}, "thoughtSignature":"c2ln"}}',
        f'{{"thought":true,"text":{text(chance)},"thoughtSignature":"c2ln"}}',
        f'{{"functionCall":{{{call},"args":{{"n":1.0,"big":{10**30},"f":1e-7}}}},"thoughtSignature":"c2ln"}}',
        f'{{"functionCall":{{"name":"read_file","args":{{"said":{text(chance)}}}}}}}',
        f'{{"functionResponse":{{{call},"response":{{"output":{text(chance)}}}}}}}',
        f'{{"functionResponse" :{{"response":{{"error":{text(chance)}}},"name":"read_file","id":"c{number - 1}"}}}}',
        '{"functionResponse":{"name":"read_file","response":{"big":1e999},"parts":[{"inlineData":{"data":"aGk="}}]}}',
        '{"inlineData":{"mimeType":"image/png","data":"aGk="}}',
        '{"text":"<session_context>\\nx</session_context>"}',
        '{"unheardOf":[[[[]]],2],"unheardOf":2}',
        "null",
    ]
    return chance.choice(kinds[:-1] if chance.random() < 0.99 else kinds)


def contents(chance: random.Random, longest: int) -> list[str]:
    found = []
    for number in range(chance.randint(0, longest)):
        parts = " , ".join(part(chance, number) for _ in range(chance.randint(0, 3)))
        order = [f'"role":"{chance.choice(["user", "model", "user", "model", "system"])}"', f'"parts": [{parts}]']
        found.append(f"{{{', '.join(order if chance.random() < 0.8 else order[::-1])}}}")
    return found


def contents_body(chance: random.Random) -> bytes:
    """Return a body that names no session. It often begins like others, and sometimes comes from a sub-agent or from a
    request outside the conversation."""
    begun = contents(random.Random(chance.randint(1, 3)), 6) if chance.random() < 0.7 else []
    functions = chance.choice(['{"name":"read_file"}', '{"name":"read_file"}', '{"name":"complete_task"}', ""])
    rest = [f'"contents": [{" , ".join([*begun, *contents(chance, 8)])}]']
    rest += [f'"tools":[{{"functionDeclarations":[{functions}]}}]'] if functions or chance.random() < 0.5 else []
    rest += ['"generationConfig":{"responseMimeType":"application/json"}'] if chance.random() < 0.1 else []
    rest += ['"systemInstruction":{"parts":[{"text":"x"}]}'] if chance.random() < 0.5 else []
    chance.shuffle(rest)
    return f"{{{','.join(rest)}}}".encode()


HOSTILE = [
    b"",
    b"null",
    b"[" * 10_000 + b"]" * 10_000,
    b'{"messages":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    b'{"messages":[{"role":"user","content":[' + b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b"]}]}",
    b'{"messages":[{"role":"user","content":"\xff\xfe"}],"tools":[{}]}',
    b'{"messages":[],"messages":[{"role":"user","content":"x"}],"tools":[{}]}',
    b'{"messages":[{"role":"user","content":"x"}],"tools":[{}],"model":7}',
    b'{"messages":[{"role":"user","content":"' + b"x" * (LONGEST + 1) + b'"}]}',
]


class Sent(NamedTuple):
    """The requests of a client on one wire: their paths, a header (name and values), their bodies, the member of a body
    that holds the messages, and the form of a message's text."""

    paths: tuple[str, ...]
    header: str
    values: tuple[str, ...]
    made: Callable[[random.Random], bytes]
    bodies: int
    member: bytes
    content: bytes = rb'"content":\1'

    def hostile(self, body: bytes) -> bytes:
        named = body.replace(b'"messages":', b'"%s":' % self.member)
        return re.sub(rb'"content":("[^"]*"|\[)', self.content, named)


SESSIONS = ("one", "two", "")
WIRES = {
    "messages": Sent(("/v1/messages?beta=true",), "x-claude-code-session-id", SESSIONS, body, BODIES, b"messages"),
    "responses": Sent(("/v1/responses",), "session-id", SESSIONS, items_body, OTHERS, b"input"),
    "completions": Sent(
        ("/v1/chat/completions", "/chat/completions"), "x-session-id", SESSIONS, chat_body, OTHERS, b"messages"
    ),
    "contents": Sent(
        (f"{MODELS}:streamGenerateContent?alt=sse", f"{MODELS}:streamGenerateContent", f"{MODELS}:generateContent"),
        "user-agent",
        ("GeminiCLI-tui/0.61.0", "google-genai-sdk/3.4"),
        contents_body,
        OTHERS,
        b"contents",
        rb'"parts":[{"text":\1}]',
    ),
}


@pytest.mark.parametrize("wire", WIRES)
def test_bodies_reach_the_upstream_unchanged(
    tmp_path: Path,
    upstream: Upstream,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
    wire: str,
) -> None:
    chance, of = random.Random(5), WIRES[wire]
    hostile = HOSTILE if DEEP or wire == "messages" else HOSTILE[:-1]  # the limit precedes any look at the content
    bodies = [*map(of.hostile, hostile), *(of.made(chance) for _ in range(of.bodies))]
    plain: dict[str, str] = {}
    sent = [(chance.choice(of.paths), plain, each) for each in bodies]
    for number, real in enumerate(recorded()):  # bodies of real clients among the others
        sent.insert(number * 20, (real.target, real.headers, real.body))
    with foldmark.open(tmp_path / "live.db", settings={}) as log:
        sessions = Sessions(log, "app", upstream.url)
        with Gateway(upstream.url, sessions=sessions) as gateway, httpx.Client(timeout=LIMIT) as client:
            for target, own, each in sent:
                value = chance.choice(of.values)
                headers = own or ({of.header: value} if value else {})
                came = client.post(f"{gateway.url}{target}", headers=headers, content=each)
                assert came.content == b"{}"
        sessions.close()
        assert [hashlib.sha256(got.body).digest() for got in upstream.got] == [
            hashlib.sha256(each).digest() for _, _, each in sent
        ]
        assert len(log.agents()) >= 1
    surely = [record for record in caplog.records if "Unpaired" in record.message]
    assert surely == []


def test_what_real_clients_send_is_recorded(tmp_path: Path, upstream: Upstream) -> None:  # noqa: F811
    """A session of Claude Code with calls and a sub-agent: its bytes are unchanged, each message is recorded once."""
    bodies = [each for each in recorded() if each.client == "claude"]
    with foldmark.open(tmp_path / "live.db", settings={}) as log:
        sessions = Sessions(log, "app", upstream.url)
        with Gateway(upstream.url, sessions=sessions) as gateway, httpx.Client(timeout=LIMIT) as client:
            for each in bodies:
                client.post(f"{gateway.url}{each.target}", headers=each.headers, content=each.body)
                assert upstream.got[-1].body == each.body
        sessions.close()
        root, child = log.agents()
        assert child.parent == root.id
        kinds = [event.kind for event in root.context().messages]
        calls, results = ([kind for kind in kinds if kind == wanted] for wanted in ("tool_call", "tool_result"))
        assert len(calls) == len(results) == 3
        assert kinds.count("user") == 4
        assert [event.kind for event in child.context().messages] == ["client", "user"]


def growing(length: int) -> Iterator[list[dict[str, Any]]]:
    """Yield a transcript that grows by one turn at a time."""
    messages: list[dict[str, Any]] = []
    for number in range(length):
        messages.append({"role": "user", "content": f"prompt {number}"})
        yield messages
        messages.append({"role": "assistant", "content": [{"type": "text", "text": f"answer {number}"}]})


def test_a_transcript_that_grows_keeps_its_bytes_and_is_recorded_once(tmp_path: Path, upstream: Upstream) -> None:  # noqa: F811
    with foldmark.open(tmp_path / "live.db", settings={}) as log:
        sessions = Sessions(log, "app", upstream.url)
        with Gateway(upstream.url, sessions=sessions) as gateway, httpx.Client(timeout=LIMIT) as client:
            for messages in growing(30):
                content = json.dumps({"messages": messages, "tools": [{}]}).encode()  # with spaces after commas
                client.post(f"{gateway.url}/v1/messages", headers={"x-claude-code-session-id": "s"}, content=content)
                assert upstream.got[-1].body == content
        sessions.close()
        (agent,) = log.agents()
        texts = [event.content for event in agent.context().messages]
    assert texts == [text for number in range(29) for text in (f"prompt {number}", f"answer {number}")] + ["prompt 29"]
