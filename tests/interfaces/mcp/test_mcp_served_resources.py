"""Resources, their templates and completions, and prompts over MCP (SPEC 5.6, 9)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import apsw
import pytest
from guest import ERAS, inside, visit
from mcp import MCPError
from mcp.types import INVALID_PARAMS, PromptReference, ResourceTemplateReference

import foldmark
from foldmark.mcp import resources
from foldmark.sessions.install.plugins import skill_template

ROOT = "foldmark://conversations"


@pytest.fixture
def agent(log: foldmark.Log, cli: Any) -> foldmark.Agent:
    """A conversation with two sent turns, one of which has left the context."""
    assert cli("chat", "a/b ü", stdin="first of all\n/mark M\nsecond to that\n/clear M\n").code == 0
    return log.agent("a/b ü")


@pytest.mark.parametrize("era", ERAS)
def test_conversations_and_requests(db: str, agent: foldmark.Agent, era: str) -> None:
    async def visiting() -> None:
        async with inside(db, era=era) as guest:
            (row,) = await guest.data(ROOT)
            assert (row["name"], row["agent"], row["messages"]) == ("a/b ü", agent.id, 2)
            listed = [each.uri for each in (await guest.client.list_resources()).resources]
            here = f"{ROOT}/a%2Fb%20%C3%BC"
            assert listed == [ROOT, f"{here}/context", f"{here}/request"]
            now = await guest.read(f"{here}/context")
            assert "first of all" in now
            assert "second to that" not in now
            before = agent.do("/message list").data
            sent = (await guest.data(f"{here}/requests.json"))["sent"]
            assert [each["purpose"] for each in sent] == ["answer", "answer"]
            then = await guest.data(f"{here}/context/{sent[0]['event']}.json")
            assert [turn["messages"][0]["content"] for turn in then["turns"]] == ["first of all", "second to that"]
            assert "second to that" in await guest.read(f"{here}/context/{sent[0]['event']}")
            assert await guest.read(f"{here}/request") == agent.do("/context show").text
            request = (await guest.data(f"{here}/request.json"))["request"]
            assert request["bytes"] == agent.request().bytes.decode()
            rebuilt = await guest.data(f"{here}/requests/{sent[0]['id']}.json")
            assert rebuilt["verdict"] == "identical"
            assert "second to that" in rebuilt["request"]["bytes"]
            assert "Rebuilt byte for byte" in await guest.read(f"{here}/requests/{sent[0]['id']}")
            assert agent.do("/message list").data == before
            templates = (await guest.client.list_resource_templates()).resource_templates
            for each in templates:
                uri = each.uri_template.format(name="a%2Fb%20%C3%BC", event=sent[0]["event"], id=sent[0]["id"])
                text = await guest.read(uri)
                assert (each.mime_type == "application/json") == text.startswith(("{", "["))

    visit(visiting)


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("file:///etc/passwd", "there is no resource 'file:///etc/passwd'"),
        (f"{ROOT}/x/context", "there is no conversation or agent 'x'"),
        (f"{ROOT}/%00%ff/context", "there is no conversation or agent"),
        (f"{ROOT}//context", "there is no resource"),
        (f"{ROOT}/default/secrets", "there is no resource"),
        (f"{ROOT}/default/context/9999", "there is no event 9999"),
        (f"{ROOT}/default/requests/{10**17}", "there is no request"),
        (f"{ROOT}/default/requests/{10**18}", "there is no resource"),
        (f"{ROOT}/default/request/1", "sent requests are at requests/ID"),
    ],
)
def test_wrong_addresses_are_errors_of_the_protocol(db: str, log: foldmark.Log, uri: str, told: str) -> None:
    log.agent("default").append("user", "x")

    async def visiting() -> None:
        async with inside(db) as guest:
            with pytest.raises(MCPError) as caught:
                await guest.read(uri)
            assert told in str(caught.value)
            assert caught.value.code == INVALID_PARAMS

    visit(visiting)


def test_an_empty_conversation(db: str, log: foldmark.Log) -> None:
    log.agent("default")

    async def visiting() -> None:
        async with inside(db) as guest:
            assert "0 messages" in await guest.read(f"{ROOT}/default/context")
            assert (await guest.data(f"{ROOT}/default/context.json"))["turns"] == []
            assert "Nothing was sent" in await guest.read(f"{ROOT}/default/requests")

    visit(visiting)


def test_many_are_one_page_of_the_newest(db: str, log: foldmark.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "PAGE", 2)
    for number in range(5):
        log.agent(f"c{number}").append("user", "x")
    log.agent("c1").append("user", "y")
    order = ["c1", "c4", "c3", "c2", "c0"]

    async def visiting() -> None:
        async with inside(db) as guest:
            listed = await guest.client.list_resources()
            assert listed.next_cursor is None
            assert [each.name for each in listed.resources] == [
                "conversations",
                *(f"{name}/{what}" for name in order[:2] for what in ("context", "request")),
            ]
            told = listed.resources[0].description or ""
            assert told.startswith("The 2 newest of 5 conversations, as JSON")
            pages = [ROOT, *(f"{ROOT}?page={number}" for number in (1, 2, 3, 4, 999_999_999))]
            names = [[row["name"] for row in await guest.data(page)] for page in pages]
            assert names == [order[:2], order[:2], order[2:4], order[4:], [], []]
            for wrong in ("0", "-1", "x", "9" * 30, ""):
                with pytest.raises(MCPError, match="there is no resource"):
                    await guest.read(f"{ROOT}?page={wrong}")
            for wrong in ("2", "x"):
                with pytest.raises(MCPError, match="is not a cursor"):
                    await guest.client.list_resources(cursor=wrong)

    visit(visiting)


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """All SQL statements that new connections run."""
    done: list[str] = []

    def note(_: apsw.Cursor, sql: str, __: object) -> bool:
        done.append(sql)
        return True

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = note

    apsw.connection_hooks.append(watch)
    yield done
    apsw.connection_hooks.remove(watch)


def test_listing_costs_a_page_however_many_there_are(db: str, log: foldmark.Log, statements: list[str]) -> None:
    """This counts the statements of a listing, a page, a completion and a tool that concerns no conversation."""

    def costs() -> list[int]:
        found = []

        async def visiting() -> None:
            async with inside(db, None) as guest:
                ref = ResourceTemplateReference(uri=f"{ROOT}/{{name}}/context")
                for asked in (
                    guest.client.list_resources(),
                    guest.read(f"{ROOT}?page=1"),
                    guest.client.complete(ref, {"name": "name", "value": ""}),
                    guest.call("retrieve_memos", tags=[]),
                ):
                    statements.clear()
                    await asked
                    found.append(len(statements))

        visit(visiting)
        return found

    many: list[list[int]] = []
    for total in (resources.PAGE, 6 * resources.PAGE):
        with log.store.write():  # one flush to the disk for all of them
            for number in range(total):
                log.agent(f"c{number}")
        log.agent("c0").append("user", "x")
        many.append(costs())
    assert many[0] == many[1]
    assert max(many[1]) < 10 * resources.PAGE


def test_completions(db: str, agent: foldmark.Agent, log: foldmark.Log) -> None:
    log.agent("another")

    async def visiting() -> None:
        async with inside(db) as guest:
            ref = ResourceTemplateReference(uri=f"{ROOT}/{{name}}/requests/{{id}}")

            async def completed(argument: str, value: str, **known: str) -> list[str]:
                result = await guest.client.complete(ref, {"name": argument, "value": value}, context_arguments=known)
                return result.completion.values

            assert set(await completed("name", "a")) == {"a/b ü", "another"}
            assert await completed("name", "an") == ["another"]
            assert await completed("id", "", name="a/b ü") == ["2", "1"]
            assert await completed("id", "1", name="a/b ü") == ["1"]
            assert await completed("id", "", name="nobody") == []
            assert await completed("event", "") == []
            result = await guest.client.complete(PromptReference(name="trim"), {"name": "arguments", "value": ""})
            assert result.completion.values == []

    visit(visiting)


@pytest.mark.parametrize("name", ["trim", "rollover"])
def test_prompts_are_the_skills(db: str, name: str) -> None:
    async def visiting() -> None:
        async with inside(db) as guest:
            listed = {each.name: each for each in (await guest.client.list_prompts()).prompts}
            assert listed.keys() == {"trim", "rollover"}
            got = await guest.client.get_prompt(name, {"arguments": "for #7"})
            (message,) = got.messages
            text: str = message.content.text  # type: ignore[union-attr]
            assert listed[name].description == got.description
            assert f"description: {got.description}\n" in skill_template(name)
            assert f'behind /{name}: "for #7"' in text
            for left in ("{foldmark}", "$ARGUMENTS", "CLAUDE_SESSION_ID", "---"):
                assert left not in text
            sentences = [
                line for line in skill_template(name).splitlines()[5:] if line and "{" not in line and "$" not in line
            ]
            assert sentences
            for line in sentences:
                assert line in text
            assert '""' in (await guest.client.get_prompt(name)).messages[0].content.text  # type: ignore[union-attr]
            for wrong, arguments in (("other", {}), (name, {"x": "y"})):
                with pytest.raises(MCPError) as caught:
                    await guest.client.get_prompt(wrong, arguments)
                assert caught.value.code == INVALID_PARAMS

    visit(visiting)


def test_json_output_is_valid_for_any_text(db: str, log: foldmark.Log) -> None:
    log.agent("default").append("user", "\x1b[2J \u2028 \u202e \x00 half \ud83d")

    async def visiting() -> None:
        async with inside(db) as guest:
            for what in ("context.json", "request.json"):
                text = await guest.read(f"{ROOT}/default/{what}")
                assert "\\u001b" in text
                json.loads(text)

    visit(visiting)
