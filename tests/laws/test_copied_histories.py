"""Random histories, copied again and again into a database that is in use: the copy is the same but for its ids."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import settings
from hypothesis.stateful import rule
from test_all_operations import Histories

import foldmark
from foldmark.copying import copy
from foldmark.log.doctor import examine

sys.path.append(str(Path(__file__).parents[1] / "copying"))

from renumbered import compare

from sampled import DEEP


class CopiedHistories(Histories):
    """Copies at any moment, while the other database goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.other = foldmark.open(Path(self.folder.name) / "other.db")
        self.other.agent("own").append("user", "mine")

    def teardown(self) -> None:
        try:
            self.copy()
            assert list(examine(self.other)) == []
            self.other.close()
        finally:
            super().teardown()

    @rule()
    def copy(self) -> None:
        """Copy all conversations. Only new events are copied."""
        self.other.agent("own").append("user", "between")
        names = [agent.name for agent in self.log.agents() if agent.name]
        report = copy(self.log.store, self.other.store, names)
        agents = {agent.id: agent for agent in self.log.agents()}
        for added in report.added:
            tree = {id: id for id, agent in agents.items() if root_of(agent).id == added.agent}
            compare(self.log, self.other, added, tree)


def root_of(agent: foldmark.Agent) -> foldmark.Agent:
    return agent if agent.parent is None else root_of(agent.parent)


CopiedHistories.TestCase.settings = settings(max_examples=300 if DEEP else 4, stateful_step_count=30, deadline=None)
TestCopiedHistories = CopiedHistories.TestCase
