"""The information that a gateway gives the user's other programs about its sessions, and their questions [SPEC 5.7].

A small file for each session contains the numbers for the status line, and the address at which a command in another
terminal can ask the session's own model. The credentials for that stay in the memory of the gateway.
"""

import logging
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

import httpx2 as httpx
import msgspec

from foldmark.core.errors import ProviderError
from foldmark.core.request import Request
from foldmark.live.clients.dialect import ClientAnswer, ClientRequest
from foldmark.live.transcript import ClientTranscript
from foldmark.live.upstreams import question_client, target_at, upstream_url
from foldmark.sessions.hook import live_state

LOG = logging.getLogger(__name__)


class Asked(NamedTuple):
    """The headers and the request of a client whose credentials are used to ask a question, and its transcript."""

    headers: Mapping[str, str]
    request: ClientRequest
    transcript: ClientTranscript


Ask = Callable[[Asked, Request], str]
"""Asks a model a question. Raises ProviderError."""


def answer_of(
    upstream: str | Mapping[str, str], environment: Mapping[str, str], by: Asked, asked: Request
) -> ClientAnswer:
    """Return the model's answer to one of Foldmark's own questions, asked with the credentials of the request `by`.
    `upstream` is a base URL, or one for each dialect. Raises ProviderError."""
    dialect = by.request.dialect
    kept = {name: value for name, value in by.headers.items() if name in dialect.credentials}
    target, body = dialect.question(asked, by.request)
    try:
        with question_client(environment) as client:
            base = upstream_url(upstream if isinstance(upstream, str) else upstream[dialect.dialect])
            url = base.copy_with(raw_path=target_at(base, target.encode()))
            came = client.post(url, content=body, headers={**kept, "content-type": "application/json"})
    except httpx.HTTPError as error:
        raise ProviderError(
            "network", f"the provider could not be reached ({type(error).__name__}); check the network, then repeat"
        ) from None
    answer = dialect.answer(came.content, streamed=True) if came.status_code == 200 else None
    if answer is None:
        raise ProviderError(
            "answer", f"the provider refused the question with status {came.status_code}; repeat it later"
        )
    return answer


class OtherPrograms:
    """The files of a gateway's sessions, and the endpoint for questions, under a separate secret. `base` is the address
    of the gateway, without a path; no file is written before it is set, and none without an `environment`."""

    def __init__(self, environment: Mapping[str, str], ask: Ask) -> None:
        self.base = ""
        self._environment, self._ask = environment, ask
        self._path = f"/{secrets.token_urlsafe(24)}/ask/"
        self._newest: dict[str, Asked] = {}
        self._told: dict[str, dict[str, object]] = {}
        with suppress(OSError):
            if environment:
                live_state.remove_killed(environment)

    def note(self, transcript: ClientTranscript, headers: Mapping[str, str], request: ClientRequest) -> None:
        """Keep the newest request of a session: questions are asked in the way its client would ask them."""
        self._newest[transcript.agent.id] = Asked(headers, request, transcript)

    def tell(self, transcript: ClientTranscript) -> None:
        """Write the file of a session. Do nothing for a sub-agent or if nothing has changed."""
        agent = transcript.agent
        if agent.name is None or not self.base or not self._environment:
            return
        out, operations = transcript.edits()
        numbers = {"taken_out": out, "operations": operations, "prevented": transcript.ledger.prevented}
        compacts = transcript.idle_limit is not None and transcript.filled >= transcript.idle_limit
        numbers |= {"idle_compaction": int(compacts)}
        told: dict[str, object] = {"agent": agent.id, "url": f"{self.base}{self._path}{agent.id}", **numbers}
        if self._told.get(transcript.session) == told:
            return
        try:
            live_state.write(self._environment, transcript.session, told)
        except OSError as error:
            LOG.warning("the state of a session could not be written: %s", type(error).__name__)
        else:
            self._told[transcript.session] = told

    def close(self) -> None:
        """Remove the files."""
        for session in self._told:
            with suppress(OSError):
                live_state.remove(self._environment, session)

    def asks(self, path: str) -> bool:
        """Return True for a path under the secret."""
        return secrets.compare_digest(path[: len(self._path)].encode(), self._path.encode())

    def answer(self, path: str, body: bytes) -> tuple[int, str]:
        """Return the status and text of the answer to a question, which is a `Request` in msgpack: 200 with the model's
        answer, 400 for an invalid question, 409 before any request of the session has passed, 502 with the reason if
        the model could not be asked."""
        asked = self._newest.get(path[len(self._path) :])
        if asked is None:
            return 409, "nothing of this session has passed through this gateway yet"
        try:
            question = msgspec.msgpack.decode(body, type=Request)
        except msgspec.MsgspecError:
            return 400, "this is no question"
        try:
            return 200, self._ask(asked, question)
        except ProviderError as error:
            return 502, str(error)
