"""Models that tests script."""

from foldmark.core.ports import Provider
from foldmark.core.request import Request


class ScriptedProvider(Provider):
    """A model whose answers a test writes: a subclass defines `answer`."""

    async def count(self, request: Request) -> int:
        return request.tokens
