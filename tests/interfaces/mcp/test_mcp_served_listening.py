"""Clients are notified when resources that they follow change, regardless of who changes them (SPEC 9)."""

from __future__ import annotations

import io
from pathlib import Path

import anyio
import pytest
from guest import ERAS, inside, outside, visit
from mcp import MCPError
from mcp.types import INVALID_PARAMS

import foldmark
from foldmark.core.request import Usage
from foldmark.mcp.listening import LIST, News, Subscriptions
from foldmark.mcp.stdio import MessageLines, Pending
from foldmark.sending.status import record_usage

ROOT = "foldmark://conversations"


def uri(name: str, what: str = "context") -> str:
    return f"{ROOT}/{name}/{what}"


def is_watching(server: Subscriptions) -> bool:
    return server._watching is not None


@pytest.mark.parametrize("era", ERAS)
def test_another_process_and_a_tool_change_what_a_client_follows(db: str, log: foldmark.Log, era: str) -> None:
    agent, other = log.agent("one"), log.agent("other")

    async def visiting() -> None:
        async with outside(era=era) as guest:
            capability = guest.client.server_capabilities.resources
            assert capability is not None
            assert capability.subscribe
            assert capability.list_changed
            async with guest.following(uri("one"), uri("new", "request"), lists=True) as told:
                other.append("user", "nobody follows this")
                agent.append("user", "said by another process")
                assert await told() == uri("one")
                assert "said by another process" in await guest.read(uri("one"))
                await guest.call("slash", command="mark", args="here", conversation="one")
                assert await told() == uri("one")
                new = log.agent("new")
                assert [await told(), await told()] == [LIST, uri("new", "request")]
                new.append("user", "first")
                assert await told() == uri("new", "request")
                new.do("/rename newer")
                assert [await told(), await told()] == [LIST, uri("new", "request")]
            async with guest.following(uri("other")) as told:
                agent.context()  # learn the head after the tool's event
                agent.append("user", "nobody follows this any more")
                other.append("user", "now somebody does")
                assert await told() == uri("other")

    visit(visiting)


@pytest.mark.parametrize("era", ERAS)
def test_a_sent_request_changes_no_context(db: str, log: foldmark.Log, era: str) -> None:
    agent = log.agent("one")
    agent.append("user", "hello")

    async def visiting() -> None:
        async with outside(era=era) as guest, guest.following(ROOT, uri("one"), uri("one", "requests")) as told:
            record_usage(agent, agent.record_sent(agent.request()), Usage(5), None)
            assert await told() == uri("one", "requests")
            agent.append("assistant", "hi")
            assert {await told() for _ in range(3)} == {ROOT, uri("one"), uri("one", "requests")}

    visit(visiting)


@pytest.mark.parametrize("era", ERAS)
def test_a_database_that_is_still_to_come(db: str, era: str) -> None:
    async def visiting() -> None:
        async with outside(era=era) as guest, guest.following(ROOT, uri("first")) as told:
            assert not Path(db).exists()
            with foldmark.open(db) as log:
                log.agent("first")
                assert {await told(), await told()} == {ROOT, uri("first")}

    visit(visiting)


@pytest.mark.parametrize("era", ERAS)
def test_the_database_is_watched_only_while_somebody_follows(
    db: str, log: foldmark.Log, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers: list[Subscriptions] = []
    made = Subscriptions.__init__
    monkeypatch.setattr(Subscriptions, "__init__", lambda self, *given: servers.append(self) or made(self, *given))  # type: ignore[func-returns-value]
    agent = log.agent("one")

    async def visiting() -> None:
        async with inside(db, era=era) as guest:
            (server,) = servers
            await guest.read(uri("one"))
            assert not is_watching(server)
            async with guest.following(uri("one")) as told:
                watching = server._watching
                assert watching is not None
                async with guest.following(uri("one", "request")):
                    assert server._watching is watching
                agent.append("user", "still told")
                assert await told() == uri("one")
            while is_watching(server):  # the server notices a moment later
                await anyio.sleep(0)
            assert watching.cancel_called
            assert server._followed == {}

    visit(visiting)


def test_an_unknown_resource_cannot_be_followed(db: str) -> None:
    async def visiting() -> None:
        async with inside(db, era="legacy") as guest:
            with pytest.raises(MCPError, match="there is no resource") as caught:
                await guest.subscribe("file:///etc/passwd")
            assert caught.value.code == INVALID_PARAMS
            await guest.unsubscribe(uri("never"))
        async with inside(db) as guest, guest.following("file:///etc/passwd"):
            pass

    visit(visiting)


def test_the_end_of_input_waits_for_no_one_who_listens() -> None:
    line = '{"jsonrpc": "2.0", "id": 1, "method": "%s", "params": {}}\n'
    for method, waits in (("subscriptions/listen", False), ("tools/list", True)):
        pending = Pending()
        lines = MessageLines(io.BytesIO((line % method).encode()), pending)
        assert method in lines.readline()
        assert bool(pending._ids) == waits


class TestNews:
    """The resources that a change affects."""

    @pytest.fixture
    def agent(self, log: foldmark.Log) -> foldmark.Agent:
        agent = log.agent("one")
        agent.append("user", "first")
        agent.append("assistant", "First.")
        agent.end_turn()
        return agent

    def test_an_event_is_about_its_agent_and_not_about_the_past(self, log: foldmark.Log, agent: foldmark.Agent) -> None:
        child = log.agent(agent.do("/fork").data["child"])
        now = {uri("one"), uri("one", "request.json"), uri(agent.id[:12], "requests")}
        followed = {
            *now,
            uri("one", "context/1"),
            uri("one", "requests/1.json"),
            uri(child.id),
            ROOT,
            LIST,
            uri("none"),
        }
        news = News()
        assert news.read(log, followed) == set()
        assert news.read(log, followed) == set()
        agent.append("user", "second")
        assert news.read(log, followed) == {*now, ROOT}
        child.append("user", "third")
        assert news.read(log, followed) == {uri(child.id)}
        agent.do(f"/send {child.id} look")
        assert news.read(log, followed) == {uri(child.id)}
        agent.do(f"/kill {child.id}")
        assert news.read(log, followed) == {*now, uri(child.id)}
        assert news.read(log, followed) == set()

    def test_an_erased_turn_leaves_past_contexts_and_all_heirs(self, log: foldmark.Log, agent: foldmark.Agent) -> None:
        child = log.agent(agent.do("/fork").data["child"])
        log.agent("other")
        followed = {uri("one", "context/2"), uri("one", "requests/1"), uri(child.id, "request"), uri("other"), LIST}
        news = News()
        news.read(log, followed)
        (opener, *_) = agent.context().messages
        agent.do(f"/message remove {opener.id} --yes")
        assert news.read(log, followed) == followed - {uri("other"), LIST}

    def test_a_name_may_mean_another_conversation(self, log: foldmark.Log, agent: foldmark.Agent) -> None:
        followed = {uri("one"), uri("two", "context/1"), uri(agent.id), ROOT, LIST}
        news = News()
        news.read(log, followed)
        three = log.agent("three")
        assert news.read(log, followed) == {ROOT, LIST}
        three.do("/session archive one")
        assert news.read(log, followed) == set()
        log.agent("one").do("/rename two")
        assert news.read(log, followed) == followed
        news.read(log, {uri("two")})
        three.do("/session delete two --yes")
        assert news.read(log, {uri("two"), LIST, uri(agent.id)}) == {uri("two"), LIST, uri(agent.id)}

    def test_after_a_failure_all_changes_are_announced(self, log: foldmark.Log, agent: foldmark.Agent) -> None:
        followed = {uri("one"), uri("none"), LIST}
        news = News()
        news.read(log, followed)
        news.lose()
        assert news.read(log, followed) == followed
        assert news.read(log, followed) == set()

    def test_many_changes_are_told_once(self, log: foldmark.Log, agent: foldmark.Agent) -> None:
        news = News()
        news.read(log, {uri("one")})
        with agent.batch():
            for _ in range(2500):
                agent.append("user", "x")
        assert news.read(log, {uri("one")}) == {uri("one")}
        assert news.read(log, {uri("one")}) == set()
