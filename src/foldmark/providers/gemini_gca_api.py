"""Gemini through Code Assist, with a Google account instead of a key.

The protocol is that of google-gemini/gemini-cli (code_assist/server.ts, converter.ts, setup.ts). The account's token is
the key that was given, or comes from Google's default credentials. The tokens that the Gemini CLI keeps for itself are
not touched: they belong to that program. An account that was never set up for Code Assist is not set up here.
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
from foldmark.dialects.gemini.contents import unwrapped
from foldmark.dialects.gemini.errors import brief
from foldmark.dialects.gemini.stream import pieces_of
from foldmark.providers.access import Access
from foldmark.providers.gemini_api import countable, counted
from foldmark.providers.gemini_sdk import Door, Service, checked, posted, require_sdk, streamed

ADDRESS = "https://cloudcode-pa.googleapis.com"
SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
SIGN_IN = "Sign in with: gcloud auth application-default login."

_CLIENT = {"ideType": "IDE_UNSPECIFIED", "platform": "PLATFORM_UNSPECIFIED", "pluginType": "GEMINI"}
_COUNTED = ("contents", "systemInstruction", "tools")


def connect(model: str, access: Access) -> Provider:
    """The model behind Code Assist. Raises ProviderError without the SDK, or an address that can be one."""
    require_sdk()
    token = (access.key or "").strip()
    if not (token.isascii() and token.isprintable()):
        raise ProviderError("key", f"The token for Code Assist holds characters that no token has. {SIGN_IN}")
    return CodeAssist(model, access, token)


class CodeAssist:
    """A model that is asked for an account and a project."""

    def __init__(self, model: str, access: Access, token: str) -> None:
        self._model, self._token, self._project = model, token, access.project
        self._service = Service("Code Assist", checked(access.base_url) or ADDRESS, "", SIGN_IN)
        self._credentials: Any = None

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Stream the answer to a request; closing the iterator ends the request. Raises ProviderError."""
        door = await self._door()
        body = {
            **request.body,
            "project": await self._own_project(door),
            "user_prompt_id": blake2b(request.bytes, digest_size=16).hexdigest(),
        }
        async with (
            aclosing(streamed(door, "v1internal:streamGenerateContent?alt=sse", body)) as chunks,
            aclosing(pieces_of(chunks, request, unwrapped)) as pieces,
        ):
            async for piece in pieces:
                yield piece

    async def count(self, request: Request) -> int:
        """The tokens of a request as Code Assist counts them. Raises ProviderError."""
        asked = countable(request.body["request"])
        kept = {key: asked[key] for key in _COUNTED if key in asked}
        body = {"request": {"model": f"models/{self._model}", **kept}}
        answer = await posted(await self._door(), "v1internal:countTokens", body)
        return counted(unwrapped(answer) or answer)

    async def _door(self) -> Door:
        token = self._token or await asyncio.to_thread(self._fresh)
        hidden = Access(key=token).hidden
        return Door(self._service, {"authorization": f"Bearer {token}"}, hidden)

    def _fresh(self) -> str:
        """A token of Google's default credentials that is still good. Raises ProviderError."""
        import google.auth
        from google.auth.exceptions import GoogleAuthError, TransportError
        from google.auth.transport.requests import Request as Transport

        try:
            if self._credentials is None:
                with warnings.catch_warnings(action="ignore"):  # that an account's own tokens count against its quota
                    self._credentials = google.auth.default(scopes=SCOPES)[0]
            if not self._credentials.valid:
                self._credentials.refresh(Transport())
        except TransportError as error:
            text = f"Google's sign-in could not be reached: {brief(str(error))}. Check the network, then try again."
            raise ProviderError("network", text) from error
        except GoogleAuthError as error:
            raise ProviderError("key", f"There is no Google account to use: {brief(str(error))}. {SIGN_IN}") from error
        return str(self._credentials.token)

    async def _own_project(self, door: Door) -> str:
        """The project that was named, or the one that Code Assist has for the account. Raises ProviderError."""
        if self._project is None:
            about = {"metadata": _CLIENT}
            answer = await posted(door, "v1internal:loadCodeAssist", about)
            project = answer.get("cloudaicompanionProject")
            found = project.get("id") if isinstance(project, dict) else project
            if not isinstance(found, str) or not found:
                raise ProviderError("key", _not_set_up(answer))
            self._project = found
        return self._project


def _not_set_up(answer: dict[str, Any]) -> str:
    tiers = answer.get("ineligibleTiers")
    reasons = [tier.get("reasonMessage") for tier in tiers if isinstance(tier, dict)] if isinstance(tiers, list) else []
    said = "; ".join(brief(reason) for reason in reasons if isinstance(reason, str) and reason)
    why = f": {said}" if said else ""
    return (
        f"Code Assist has no project for this account{why}. Name one with GOOGLE_CLOUD_PROJECT, or set the account up "
        "once with the Gemini CLI."
    )
