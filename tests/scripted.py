"""Models that tests play."""

from foldmark.core.ports import Provider
from foldmark.core.request import Request


class ScriptedProvider(Provider):
    """A model whose answers a test writes: its subclass has `answer`."""

    async def count(self, request: Request) -> int:
        return request.tokens
