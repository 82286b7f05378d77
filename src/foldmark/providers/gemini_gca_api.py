"""Gemini through Code Assist, with a Google account instead of a key.

The protocol is that of google-gemini/gemini-cli (code_assist/server.ts, converter.ts, setup.ts). The token of the
account is the given key, or comes from Google's default credentials. Tokens that the Gemini CLI stores are not used:
they belong to that program. An account that was never set up for Code Assist is not set up here.
"""

import asyncio
import warnings
from collections.abc import AsyncGenerator
from contextlib import aclosing
from hashlib import blake2b
from typing import Any

from foldmark.core.errors import ProviderError
from foldmark.core.ports import Provider
from foldmark.core.request import Piece, Request
from foldmark.dialects.errors import brief
from foldmark.dialects.gemini.contents import unwrapped
from foldmark.dialects.gemini.stream import ResponseReader
from foldmark.providers.gemini_api import GoogleServer, countable
from foldmark.providers.registry import Access
from foldmark.providers.sdk import check_key, host, imported, streamed, token_count
from foldmark.wires.lenient_json import as_text, objects_in

ADDRESS = "https://cloudcode-pa.googleapis.com"
SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
SIGN_IN = "Sign in with: gcloud auth application-default login."

_CLIENT = {"ideType": "IDE_UNSPECIFIED", "platform": "PLATFORM_UNSPECIFIED", "pluginType": "GEMINI"}
_COUNTED = ("contents", "systemInstruction", "tools")


def connect(model: str, access: Access) -> Provider:
    """Return the provider of a model. Raises ProviderError without the SDK, or for an invalid address."""
    imported("google.genai", "Code Assist", "gemini")
    token = (access.key or "").strip()
    if token:
        check_key(token, "Code Assist", "GEMINI_GCA_TOKEN")
    if access.base_url is not None:
        host(access.base_url)
    return _CodeAssist(model, access, token)


class _CodeAssist:
    """A model of Code Assist, for one account and project."""

    def __init__(self, model: str, access: Access, token: str) -> None:
        self._model, self._token, self._project = model, token, access.project
        self._address = access.base_url or ADDRESS
        self._credentials: Any = None

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Stream the answer to a request; closing the iterator ends the request. Raises ProviderError."""
        server = await self._server()
        body = {
            **request.body,
            "project": await self._own_project(server),
            "user_prompt_id": blake2b(request.bytes, digest_size=16).hexdigest(),
        }
        events = server.events("v1internal:streamGenerateContent?alt=sse", body)
        async with aclosing(streamed(events, ResponseReader(request.bytes, unwrapped), request)) as pieces:
            async for piece in pieces:
                yield piece

    async def count(self, request: Request) -> int:
        """Return the tokens of a request as Code Assist counts them. Raises ProviderError."""
        inner = countable(request.body["request"])
        kept = {key: inner[key] for key in _COUNTED if key in inner}
        body = {"request": {"model": f"models/{self._model}", **kept}}
        answer = await (await self._server()).posted("v1internal:countTokens", body)
        return token_count(unwrapped(answer) or answer, "totalTokens", "Code Assist")

    async def _server(self) -> GoogleServer:
        token = self._token or await asyncio.to_thread(self._fresh)
        headers = {"authorization": f"Bearer {token}"}
        return GoogleServer("Code Assist", self._address, "", SIGN_IN, headers, Access(key=token).hidden)

    def _fresh(self) -> str:
        """Return a valid token of Google's default credentials. Raises ProviderError."""
        import google.auth
        from google.auth.exceptions import GoogleAuthError, TransportError
        from google.auth.transport.requests import Request as Transport

        try:
            if self._credentials is None:
                with warnings.catch_warnings(action="ignore"):  # about the quota against which the tokens count
                    self._credentials = google.auth.default(scopes=SCOPES)[0]
            if not self._credentials.valid:
                self._credentials.refresh(Transport())
        except TransportError as error:
            text = f"Google's sign-in could not be reached: {brief(str(error))}. Check the network, then try again."
            raise ProviderError("network", text) from error
        except GoogleAuthError as error:
            raise ProviderError("key", f"There is no Google account to use: {brief(str(error))}. {SIGN_IN}") from error
        return str(self._credentials.token)

    async def _own_project(self, server: GoogleServer) -> str:
        """Return the configured project, or the one that Code Assist has for the account. Raises ProviderError."""
        if self._project is None:
            answer = await server.posted("v1internal:loadCodeAssist", {"metadata": _CLIENT})
            project = answer.get("cloudaicompanionProject")
            found = as_text(project.get("id") if isinstance(project, dict) else project)
            if not found:
                tiers = (as_text(tier.get("reasonMessage")) for tier in objects_in(answer.get("ineligibleTiers")))
                why = "; ".join(brief(reason) for reason in tiers if reason)
                text = f"Code Assist has no project for this account{why and f': {why}'}. Name one with "
                text += "GOOGLE_CLOUD_PROJECT, or set the account up once with the Gemini CLI."
                raise ProviderError("key", text)
            self._project = found
        return self._project
