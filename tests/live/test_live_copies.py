"""A session of a gateway is copied into a database in use: what the gateway has recorded of it keeps its meaning."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from claude_client import BOUND, ClaudeRunning
from running import entered
from wire_bound import BoundWire

import foldmark
from foldmark.copying import copy
from foldmark.live.status import statuses
from foldmark.log.doctor import examine
from foldmark.request.client_requests import NextRequest

sys.path.append(str(Path(__file__).parents[1] / "copying"))

from renumbered import begin_far


def test_a_recorded_session_keeps_its_numbers(tmp_path: Path) -> None:
    with entered(ClaudeRunning(tmp_path, BoundWire())) as running:
        begin_far(running.log)
        running.client.model = BOUND
        for text in ("One.", "READ two.", "Three.", "READ four.", "Five."):
            running.client.say(text)
        agent = running.agent
        agent.do(f"/context drop {running.turn('Three.')}")
        results = [event.id for event in agent.context().messages if event.kind == "tool_result"]
        agent.do(f"/context evict {results[0]}")
        running.client.say("Six.")
        agent = running.agent
        with foldmark.open(tmp_path / "here.db", settings={}) as here:
            here.agent("own").append("user", "mine")
            (added,) = copy(running.log.store, here.store, [agent.name or ""]).added
            other = here.agent(added.agent)
            tokens = []
            for each in (agent, other):
                with each.reading() as (moment, at):
                    request = NextRequest.of(moment, at)
                    assert request is not None
                    tokens.append([request.tokens(), request.cached, request.held(at.fold), len(request.by_event())])
            assert tokens[0] == tokens[1]
            ours, theirs = ([each.data() for each in statuses(log)] for log in (running.log, here))
            assert [_without_ids(each) for each in ours] == [_without_ids(each) for each in theirs]
            with here.store.read() as moment:
                events = list(moment.copied_events({other.id: 0}))
            assert {"usage", "record"} <= {each.kind for each in events}
            for event in events:
                assert not re.search(r"\b7\d{9}\b", event.data or ""), (event.kind, event.data)
            assert list(examine(here)) == []


def _without_ids(status: dict[str, object]) -> str:
    return re.sub(r'("operation": )\d+', r"\1N", json.dumps(status))
