"""A tool: its specification, its arguments, its function, and the permission that it needs."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from foldmark.core.codec import well_formed
from foldmark.core.errors import CommandError
from foldmark.core.request import ToolSpec
from foldmark.log import Agent
from foldmark.operations.effects import Asking
from foldmark.tools.approval import approve


class Tool(Struct, frozen=True):
    """`arguments` is the type that the JSON must fit; `run` gets a value of it.

    A tool that runs `together` with others changes nothing that another call of the same answer could see. `question`
    returns, for arguments, what a person has to agree to before it runs; None if nobody has to. The results of a
    `quiet` one are not shown to the person, only its errors.
    """

    spec: ToolSpec
    arguments: type[Struct]
    run: Callable[[Agent, Any, Asking], str]
    together: bool = False
    quiet: bool = False
    question: Callable[[Agent, Any], str | None] | None = None

    def __call__(self, agent: Agent, args: Mapping[str, Any], asking: Asking) -> str:
        """Run with a model's arguments. Raises CommandError that says what was expected, or that nobody agreed."""
        try:
            arguments = msgspec.convert(well_formed(args), self.arguments)
        except (msgspec.ValidationError, RecursionError) as error:
            names = ", ".join(self.spec.parameters["properties"]) or "no members"
            raise CommandError(f"{self.spec.name} takes an object with {names}: {str(error)[:200]}") from None
        if self.question is not None and (question := self.question(agent, arguments)) is not None:
            approve(agent, self.spec.name, question, asking)
        return self.run(agent, arguments, asking)
