"""Killed processes lose nothing that was acknowledged [SPEC 2]; `make torture` kills more of them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from evidence import Evidence, go_on
from faults import Heard, work
from kills import KINDS, kills
from writers import DONE, REFUSED, TRY, Said, name_of, prepare

import foldmark
from foldmark import Log
from foldmark.core.agents import Size
from foldmark.core.replay import birth


def test_killed_writers_lose_nothing(fresh: Callable[[], str]) -> None:
    toll = kills(fresh, 10, "sample")
    assert toll.faults == []
    assert toll.kills == 10
    assert toll.done.keys() >= KINDS


# The check finds each planted fault.

Plant = Callable[[Log, Heard], object]


def _told(what: str, key: str, *facts: object) -> Plant:
    return lambda _, heard: heard.extend([Said(TRY, key, what), Said(DONE, key, what, facts)])


def _done(heard: Heard, what: str) -> Said:
    return next(said for said in heard if said.state == DONE and said.what == what)


def _again(log: Log, heard: Heard) -> None:
    log.agent("shared-1").append("user", _done(heard, "message").facts[0][1])


def _torn(log: Log, heard: Heard) -> None:
    heard.append(Said(TRY, "0.9.1", "turn"))
    log.agent("shared-1").append("user", "0.9.1/1/5 please look")


def _without_end(log: Log, heard: Heard) -> None:
    heard.append(Said(TRY, "0.9.1", "turn"))
    with log.agent("shared-1").batch():
        for part in (1, 2):
            log.agent("shared-1").append("user", f"0.9.1/{part}/2 half a turn")


def _out_of_nothing(log: Log, _: Heard) -> None:
    log.agent("shared-1").append("user", "9.9.9/1/1 nobody said that")


def _refused(_: Log, heard: Heard) -> None:
    said = _done(heard, "turn")
    heard.append(Said(REFUSED, said.key, said.what))


def _operation_again(log: Log, heard: Heard) -> None:
    log.agent("shared-1").do(f"/mark M -- {_done(heard, 'operation').key}")


def _metadata_again(log: Log, heard: Heard) -> None:
    log.agent("shared-1").record("usage", data={"key": _done(heard, "metadata").key})


def _lower(log: Log, _: Heard) -> None:
    log.agent(name_of(0)).record("usage", data={})
    _in_file(log, "UPDATE agents SET last = last - 1 WHERE name = ?", name_of(0))


def _mail_again(log: Log, heard: Heard) -> None:
    log.agent("shared-1").append("user", f"[Mail from nobody]\nmail {_done(heard, 'mail').key}")


def _changed(log: Log, heard: Heard) -> None:
    _in_file(log, "UPDATE events SET content = content || 'x' WHERE id = ?", _done(heard, "message").facts[0][0])


def _deleted(log: Log, heard: Heard) -> None:
    _in_file(log, "DELETE FROM events WHERE id = ?", _done(heard, "message").facts[0][0])


def _not_erased(log: Log, _: Heard) -> None:
    _in_file(log, "UPDATE events SET content = 'still there' WHERE content = '' AND kind = 'user'")


def _stale_cache(log: Log, _: Heard) -> None:
    with log.store.write() as transaction:
        transaction.save_fold(birth(log.agent(name_of(0)).id), Size(7, 7))


def _in_file(log: Log, sql: str, *values: object) -> None:
    db = apsw.Connection(log.store.address)
    db.execute("PRAGMA foreign_keys = OFF")
    db.execute(sql, values)
    assert db.changes()
    db.close()


PLANTED: dict[str, tuple[Plant, str]] = {
    "an event that is not there": (_told("turn", "0.9.1", (999_999, "text")), "acknowledged event 999999 is not there"),
    "a deleted event": (_deleted, r"acknowledged event \d+ is not there"),
    "another content": (_changed, r"holds '.*x' instead of"),
    "a message twice": (_again, "recorded in 2 conversations"),
    "a part of a turn": (_torn, r"0\.9\.1: of 5 parts there are \[1\]"),
    "a turn without its end": (_without_end, r"0\.9\.1: the turn was recorded without its end"),
    "a message of nobody": (_out_of_nothing, r"9\.9\.9: there is a message that nobody asked for"),
    "what was refused": (_refused, "was refused, and recorded all the same"),
    "an operation that is not there": (_told("operation", "0.9.1", 999_999), "acknowledged operation 999999"),
    "an operation twice": (_operation_again, "recorded 2 times"),
    "a child that is not there": (_told("fork", "0.9.1", 1, "nobody"), "acknowledged child nobody is not there"),
    "metadata that is not there": (_told("metadata", "0.9.1", 999_999), "acknowledged metadata 999999"),
    "metadata twice": (_metadata_again, "usage was recorded 2 times"),
    "metadata below": (_lower, "its row says"),
    "mail twice": (_mail_again, "mail was delivered 2 times"),
    "mail never": (_told("mail", "0.9.1", 999_999), r"0\.9\.1: acknowledged mail 999999 was never delivered"),
    "half an erasure": (_not_erased, r"of the erased turn \d+ still has its content"),
    "a stored cache that differs": (_stale_cache, "doctor: .* differ from the replay"),
}


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Heard]:
    """A database with some correct work in it, and the records of that work."""
    path, heard = tmp_path_factory.mktemp("worked") / "log.db", Heard()
    prepare(str(path), 8)
    with foldmark.open(path, settings={}) as log:
        for run in range(2):
            work(log, run, 8, heard, random.Random(run))
        go_on(log)
        assert list(Evidence(log, heard).faults()) == []
    assert {said.what for said in heard if said.state == DONE} >= {
        *("message", "turn", "operation", "mail", "erase", "metadata")
    }
    return path, heard


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(worked: tuple[Path, Heard], tmp_path: Path, name: str) -> None:
    path, heard = tmp_path / "log.db", Heard(worked[1])
    path.write_bytes(worked[0].read_bytes())
    plant, text = PLANTED[name]
    with foldmark.open(path, settings={}) as log:
        plant(log, heard)
    with foldmark.open(path, settings={}) as log:
        faults = list(Evidence(log, heard).faults())
    assert [fault for fault in faults if re.search(text, fault)], faults
