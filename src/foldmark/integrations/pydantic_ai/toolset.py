"""Foldmark's own tools for the model of a Pydantic AI agent [SPEC 4.1]."""

from collections.abc import Sequence
from typing import Any

from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.tools import Tool
from pydantic_ai.toolsets import FunctionToolset

from foldmark.core.errors import CommandError
from foldmark.core.request import ToolSpec
from foldmark.core.wording import listing
from foldmark.log import Agent
from foldmark.operations.effects import Asking


def toolset(agent: Agent, names: Sequence[str], asking: Asking) -> FunctionToolset[Any]:
    """The tools with these names; each works on the conversation of `agent`, and asks the person behind `asking`.

    Raises CommandError for a name of none.
    """
    there = {spec.name: spec for spec in agent.tools()}
    if unknown := [name for name in names if name not in there]:
        raise CommandError(f"there is no tool '{str(unknown[0])[:40]}'; there is: {listing(there, 40)}")
    return FunctionToolset([_tool(agent, there[name], asking) for name in names])


def _tool(agent: Agent, spec: ToolSpec, asking: Asking) -> Tool[Any]:
    def call(**args: Any) -> str:
        try:
            agent.context()  # somebody else may have written, from another process
            return agent.call_tool(spec.name, args, asking=asking)
        except CommandError as error:
            raise ToolFailed(str(error)) from None

    # One at a time: what one of them does to the context, the others see.
    return Tool.from_schema(call, spec.name, spec.description, spec.parameters, sequential=True)
