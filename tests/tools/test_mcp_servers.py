"""`.mcp.json`: reading it, showing it to a person, and the messages about its faults (SPEC 4.1)."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from foldmark.core.codec import Secrets
from foldmark.tools.mcp.servers import ConfiguredServers, Endpoint, McpServer, Program, configured

ENVIRONMENT = {"HOME": "/home/me", "GITHUB_TOKEN": "ghp_0123456789", "MINE": "sk-abcdefghijk", "EMPTY": ""}
SECRETS = Secrets({"MY_KEY": "sk-abcdefghijk"})


def read(folder: Path, servers: Any) -> ConfiguredServers:
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return configured(folder, ENVIRONMENT, SECRETS)


def one(folder: Path, **about: Any) -> McpServer:
    found = read(folder, {"it": about})
    assert found.wrong == ()
    return found.servers[0]


def test_no_file_no_servers(tmp_path: Path) -> None:
    assert configured(tmp_path, {}, SECRETS) == ConfiguredServers()
    assert configured(tmp_path / "nowhere", {}, SECRETS) == ConfiguredServers()


def test_the_form_that_is_known(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        {
            "files": {"command": "npx", "args": ["-y", "a b", "${HOME}/x"], "env": {"MODE": "${MODE:-fast}"}},
            "web_1": {
                "type": "http",
                "url": "https://host/mcp",
                "headers": {"Authorization": "Bearer ${GITHUB_TOKEN}"},
            },
            "old": {"type": "sse", "url": "http://localhost:${PORT:-80}/sse", "unknown": [{}], "timeout": "x"},
            "plain": {"type": "stdio", "command": "run"},
            "address": {"url": "http://[::1]:9/"},
        },
    )
    assert found.wrong == ()
    assert [(each.name, each.at) for each in found.servers] == [
        ("files", Program(("npx", "-y", "a b", "/home/me/x"), {"MODE": "fast"})),
        ("web_1", Endpoint("http", "https://host/mcp", {"Authorization": "Bearer ghp_0123456789"})),
        ("old", Endpoint("sse", "http://localhost:80/sse", {})),
        ("plain", Program(("run",), {})),
        ("address", Endpoint("http", "http://[::1]:9/", {})),
    ]
    assert [each.shown for each in found.servers] == [
        "npx -y 'a b' /home/me/x; with MODE=fast",
        "https://host/mcp (http); with Authorization: 'Bearer ${GITHUB_TOKEN}'",
        "http://localhost:80/sse (sse)",
        "run",
        "http://[::1]:9/ (http)",
    ]


def test_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_bytes(b'\xef\xbb\xbf{"mcpServers": {}}')
    assert configured(tmp_path, {}, SECRETS) == ConfiguredServers()


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("${HOME}", "/home/me"),
        ("a${HOME}b${HOME}", "a/home/meb/home/me"),
        ("${NOTHING:-}", ""),
        ("${NOTHING:-a:-b}", "a:-b"),
        ("${EMPTY}", ""),
        ("${EMPTY:-full}", "full"),
        ("${NOTHING:-${HOME}", "${HOME"),  # a default ends at the first brace, and is not expanded
        ("$HOME ${} ${1} ${HOME ${HO ME}", "$HOME ${} ${1} ${HOME ${HO ME}"),
        ("${NOTHING:-$}{HOME}", "${HOME}"),  # the result is not expanded again
    ],
)
def test_variables(tmp_path: Path, text: str, expanded: str) -> None:
    assert one(tmp_path, command="run", args=[text]).at == Program(("run", expanded), {})
    assert one(tmp_path, command="run", env={"A": text}).at == Program(("run",), {"A": expanded})


def test_a_missing_variable_is_named_and_costs_one_server(tmp_path: Path) -> None:
    found = read(tmp_path, {"a": {"command": "run", "args": ["x", "${NOTHING}"]}, "b": {"command": "run"}})
    assert [each.name for each in found.servers] == ["b"]
    (told,) = found.wrong
    assert told == (
        f"{tmp_path}/.mcp.json: mcpServers.a.args[1] needs the variable NOTHING, which is not set; "
        "set it in the environment, or write ${NOTHING:-default}"
    )


# What a person is shown


def test_keys_are_not_shown(tmp_path: Path) -> None:
    shown = one(
        tmp_path,
        command="run",
        args=["--token=${GITHUB_TOKEN}", "${MINE}"],
        env={"API_KEY": "ghp_in_the_file", "DATA": "${HOME}", "OTHER": "${GITHUB_TOKEN:-none}"},
    ).shown
    assert shown == (
        "run '--token=${GITHUB_TOKEN}' [MY_KEY]; with API_KEY='…' DATA=/home/me OTHER='${GITHUB_TOKEN:-none}'"
    )


def test_control_characters_are_made_visible(tmp_path: Path) -> None:
    shown = one(tmp_path, command="run", args=["\x1b[2J\nok\u202e"]).shown
    assert shown == r"run '\x1b[2J\nok\u202e'"


def test_an_answer_holds_for_what_was_shown(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    same = {"command": "run", "args": ["a"], "env": {"A": "1"}}
    marks = [
        one(tmp_path, **same).approval,
        one(tmp_path, **{**same, "command": "./run"}).approval,
        one(tmp_path, **{**same, "args": ["b"]}).approval,
        one(tmp_path, **{**same, "args": ["a\n"]}).approval,
        one(tmp_path, **{**same, "args": ["a\\n"]}).approval,
        one(tmp_path, **{**same, "env": {"A": "2"}}).approval,
        one(tmp_path, **{**same, "env": {"LD_PRELOAD": "1"}}).approval,
        one(tmp_path, **{**same, "env": {}}).approval,
        one(tmp_path, command="run", args=["a", "with", "A=1"]).approval,
        one(tmp_path, command="run", args=["a;", "with", "A=1"]).approval,
        one(tmp_path, command="run", args=["a", ";", "with", "A=1"]).approval,
        one(tmp_path / "other", **same).approval,
        one(tmp_path, type="http", url="http://a/").approval,
        one(tmp_path, type="sse", url="http://a/").approval,
        one(tmp_path, type="http", url="http://b/").approval,
    ]
    assert len(set(marks)) == len(marks)
    assert one(tmp_path, **same, timeout=5).approval == marks[0]
    assert all(mark.startswith("mcp:it:") and len(mark) == 27 for mark in marks)


# Faults

WRONG = {
    "not an object": (5, " is an object such as"),
    "nothing": ({}, ".command must be a text"),
    "command": ({"command": ["npx"]}, ".command must be a text"),
    "empty command": ({"command": " "}, ".command must be the program to start"),
    "empty after expansion": ({"command": "${EMPTY}"}, ".command must be the program to start"),
    "a zero": ({"command": "a\0b"}, ".command must be a text"),
    "args": ({"command": "a", "args": "x"}, ".args must be a list of up to 256 texts"),
    "many args": ({"command": "a", "args": [""] * 257}, ".args must be a list of up to 256 texts"),
    "arg": ({"command": "a", "args": ["x", None]}, ".args[1] must be a text"),
    "env": ({"command": "a", "env": ["x"]}, ".env must be an object"),
    "env value": ({"command": "a", "env": {"A": 1}}, ".env.A must be a text"),
    "env name": ({"command": "a", "env": {"A=B": "1"}}, ".env: a variable's name has no ="),
    "type": ({"type": "ws", "url": "ws://x"}, ".type must be one of stdio, http, streamable-http, sse"),
    "no type": ({"type": ["http"], "url": "http://x"}, ".type must be one of"),
    "no url": ({"type": "http"}, ".url must be a text"),
    "a file": ({"type": "http", "url": "file:///etc/passwd"}, ".url must be an address such as"),
    "a wrong port": ({"type": "http", "url": "http://x:99999/"}, ".url must be an address such as"),
    "half an address": ({"type": "http", "url": "http://[::1"}, ".url must be an address such as"),
    "a line end": ({"type": "http", "url": "http://x/\r\nHost: y"}, ".url must be an address such as"),
    "a password": ({"type": "http", "url": "http://me:pw@x/"}, ".url has a name or password in it"),
    "headers": ({"type": "http", "url": "http://x/", "headers": 1}, ".headers must be an object"),
    "header name": ({"type": "http", "url": "http://x/", "headers": {"A B": "1"}}, ".headers: a header's name is"),
    "header value": (
        {"type": "http", "url": "http://x/", "headers": {"A": "1\r\nB: 2"}},
        ".headers.A has characters that are not allowed in a header",
    ),
    "long": ({"command": "x" * 5000}, " is longer than the 4,000 characters that a person can be shown"),
    "longer": ({"command": "x" * 40_000}, ".command is longer than 32,768 characters"),
    "expanded": ({"command": "${HOME}" * 4680}, ".command is longer than 32,768 characters"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_fault_costs_only_its_own_server(tmp_path: Path, name: str) -> None:
    about, words = WRONG[name]
    found = read(tmp_path, {"it": about, "good": {"command": "run"}})
    assert [each.name for each in found.servers] == ["good"]
    (told,) = found.wrong
    assert told.startswith(f"{tmp_path}/.mcp.json: mcpServers.it{words}")
    assert len(told) < 500
    assert told.isprintable()


@pytest.mark.parametrize("name", ["", "a b", "a__b", "_a", "a_", "x" * 33, "ä", "a/b", "a\n", "\x1b[2J", "a:b"])
def test_names(tmp_path: Path, name: str) -> None:
    found = read(tmp_path, {name: {"command": "run"}})
    assert found.servers == ()
    assert "a server's name is up to 32 letters, digits, - and single _ inside" in found.wrong[0]
    assert found.wrong[0].isprintable()


def test_too_many(tmp_path: Path) -> None:
    found = read(tmp_path, {f"s{number}": {"command": "run"} for number in range(40)})
    assert len(found.servers) == 32
    assert found.wrong == (f"{tmp_path}/.mcp.json: mcpServers has 40 servers; only the first 32 are used",)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe{}", "is not JSON"),
        (b'{"mcpServers": {"a": "\xff"}}', "is not JSON"),
        (b"[" * 100_000, "is nested too deeply"),
        (b"[]", "is an object with the member mcpServers"),
        (b"{}", "is an object with the member mcpServers"),
        (b'{"mcpServers": []}', "is an object with the member mcpServers"),
        (b'{"mcpServers": {}}' + b" " * 256 * 1024, "is too large"),
    ],
    ids=range(9),
)
def test_no_list_of_servers(tmp_path: Path, data: bytes, words: str) -> None:
    (tmp_path / ".mcp.json").write_bytes(data)
    found = configured(tmp_path, {}, SECRETS)
    assert found.servers == ()
    (told,) = found.wrong
    assert told.startswith(f"{tmp_path}/.mcp.json {words}")


def test_half_a_character(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_bytes(b'{"mcpServers": {"a": {"command": "x\\ud800"}}}')
    found = configured(tmp_path, {}, SECRETS)
    for text in (*found.wrong, *(each.shown for each in found.servers)):
        text.encode()


def test_no_file_of_another_kind(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".mcp.json")
    assert "is not a regular file" in configured(tmp_path, {}, SECRETS).wrong[0]
    (tmp_path / ".mcp.json").unlink()
    (tmp_path / ".mcp.json").mkdir()
    assert "is not a regular file" in configured(tmp_path, {}, SECRETS).wrong[0]
