"""A peer that runs: a process with the interpreter of its environment, which answers one request after the other."""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from peers.environments import ROOT, Pinned, isolated

ADAPTERS = Path(__file__).parent / "adapters"


class PeerError(Exception):
    """A peer failed; the message is its own."""


class Adapter:
    """The process of one adapter: `with Adapter("store_llm.py", pinned["llm"]) as peer: peer.ask("append", count=9)`.

    Without a peer it runs with Foldmark's own interpreter. It sees no key, no proxy and a home of its own.
    """

    def __init__(self, script: str, peer: Pinned | None = None, **environment: str) -> None:
        """Start the process."""
        self.home = tempfile.TemporaryDirectory(prefix="peer-")
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 -- closed in __exit__
        folders = [ADAPTERS, ROOT / "src", ROOT / "tests"] if peer is None else [ADAPTERS]
        own = {"PYTHONPATH": os.pathsep.join(map(str, folders)), **environment}
        self.process = subprocess.Popen(
            [sys.executable if peer is None else str(peer.python), str(ADAPTERS / script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            encoding="utf-8",
            env=isolated(self.home.name, **own),
        )

    def ask(self, do: str, **arguments: Any) -> Any:
        """Return the answer to one request.

        Raises:
            PeerError: The adapter failed, or its process ended.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except OSError as error:
            raise PeerError(self._last_words() or str(error)) from error
        if not line:
            raise PeerError(self._last_words() or f"ended with {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer["ok"]

    def _last_words(self) -> str:
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def __enter__(self) -> Self:
        """Return the peer itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End the process, and remove its home."""
        assert self.process.stdin is not None
        with suppress(OSError):  # a process that has died took not all that was written
            self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.errors.close()
        self.home.cleanup()
