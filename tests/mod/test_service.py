"""The service behind the plugins (SPEC 8): who may ask it, and when it ends."""

import http.client
import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.mod import service
from foldmark.mod.service import TOKEN, Service
from patience import LIMIT


def answer(name: str, asked: Any) -> Any:
    if name == "wrong":
        raise CommandError("this is wrong")
    if name == "broken":
        raise RuntimeError("a secret of the conversation")
    return {"name": name, "asked": asked}


@pytest.fixture(params=["socket", "loopback"])
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    found = Service(answer, str(tmp_path / "s.sock") if request.param == "socket" else "")
    thread = Thread(target=found.run)
    thread.start()
    yield found
    found.end.set()
    thread.join(LIMIT)
    assert not thread.is_alive()


def post(found: Service, path: str, body: bytes, **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(found.url.removeprefix("http://"), timeout=LIMIT)
    if found.socket:
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(found.socket)
    try:
        connection.request("POST", path, body, headers)
        came = connection.getresponse()
        return came.status, json.loads(came.read())
    finally:
        connection.close()


def test_only_the_token_is_answered(running: Service) -> None:
    assert post(running, "/pane", b'{"a": 1}', **{TOKEN: running.token}) == (200, {"name": "pane", "asked": {"a": 1}})
    assert post(running, "/pane", b"{}")[0] == 403
    assert post(running, "/pane", b"{}", **{TOKEN: "x"})[0] == 403
    assert post(running, "/pane", b"{}", **{TOKEN: running.token, "host": "evil.example"})[0] == 403


def test_errors_say_what_is_wrong_and_no_more(running: Service) -> None:
    own = {TOKEN: running.token}
    assert post(running, "/wrong", b"{}", **own) == (409, {"error": "this is wrong"})
    assert post(running, "/broken", b"{}", **own) == (500, {"error": "it failed (RuntimeError)"})
    assert post(running, "/pane", b"[1]", **own)[0] == 400
    assert post(running, "/pane", b"\xff{", **own)[0] == 400
    assert post(running, "/pane", b"[" * 100_000, **own)[0] == 400
    assert post(running, "/pane", b"", **{**own, "content-length": str(1 << 40)})[0] == 413


def test_it_ends_when_nothing_comes() -> None:
    found = Service(answer, idle=0.2)
    thread = Thread(target=found.run)
    thread.start()
    thread.join(LIMIT)
    assert not thread.is_alive()


def test_it_is_started_once_and_replaced_by_another_version(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "FOLDMARK_DB": str(tmp_path / "log.db")}
    words = [sys.executable, "-m", "foldmark", "mod"]

    def start() -> dict[str, Any]:
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    first = start()
    try:
        assert start() == first
        file = service.address_file(environment, environment["FOLDMARK_DB"])
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        file.write_text(json.dumps({**first, "version": "0"}))
        second = start()
        assert second["process"] != first["process"]
        first = second
    finally:
        os.kill(first["process"], 15)


@pytest.mark.parametrize("left", ["socket", "port"])
def test_what_a_killed_service_left_is_no_service(tmp_path: Path, left: str) -> None:
    """Its process number may belong to another program by now, which must neither be believed nor ended."""
    environment = {"XDG_STATE_HOME": str(tmp_path)}
    file = service.address_file(environment, "log.db")
    file.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX if left == "socket" else socket.AF_INET) as one:
        one.bind(str(tmp_path / "s.sock") if left == "socket" else ("127.0.0.1", 0))
        one.listen()
        url = "http://localhost" if left == "socket" else f"http://127.0.0.1:{one.getsockname()[1]}"
        found = service.Address(url, "token", "0", os.getpid(), str(tmp_path / "s.sock") if left == "socket" else "")
        file.write_text(json.dumps(found._asdict()))
        assert service.address(environment, "log.db") == found
    assert service.address(environment, "log.db") is None
    words = [sys.executable, "-c", "raise SystemExit('no service here')"]
    with pytest.raises(FoldmarkError, match="no service here"):  # and this process lives
        service.started(environment, "log.db", "1", words)
