"""A tool: how the model is shown it, what its arguments are, and what it does."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from foldmark.conversation import Agent
from foldmark.conversation.asking import Asking
from foldmark.core.codec import well_formed
from foldmark.core.errors import CommandError
from foldmark.core.request import ToolSpec


class Tool(Struct, frozen=True):
    """`arguments` is the type that the JSON must fit; `run` gets a value of it."""

    spec: ToolSpec
    arguments: type[Struct]
    run: Callable[[Agent, Any, Asking], str]

    def __call__(self, agent: Agent, args: Mapping[str, Any], asking: Asking) -> str:
        """Run with arguments as they came from a model. Raises CommandError saying what was expected."""
        try:
            arguments = msgspec.convert(well_formed(args), self.arguments)
        except (msgspec.ValidationError, RecursionError) as error:
            names = ", ".join(self.spec.parameters["properties"])
            raise CommandError(f"{self.spec.name} takes an object with {names}: {str(error)[:200]}") from None
        return self.run(agent, arguments, asking)
