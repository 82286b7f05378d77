"""`slash`: the commands that a model may run, through one tool [S0]. Its schema is made from the registry."""

from msgspec import Struct

from foldmark.commands import REGISTRY
from foldmark.core.request import ToolSpec
from foldmark.log import Agent
from foldmark.operations.effects import Asking
from foldmark.tools.tool import Tool


class SlashArguments(Struct, frozen=True, forbid_unknown_fields=True):
    command: str
    args: str = ""


def _run(agent: Agent, arguments: SlashArguments, asking: Asking) -> str:
    result = agent.do(f"/{arguments.command} {arguments.args}".rstrip(), actor="model", asking=asking)
    if result.event_id is not None:
        asking.operated(result)
    return result.text


SLASH = Tool(
    ToolSpec(
        "slash",
        "Execute a slash command",
        {
            "type": "object",
            "properties": {
                "command": {
                    "type": "string",
                    "enum": [name for name, command in REGISTRY.commands.items() if "model" in command.who],
                    "description": "The command to execute",
                },
                "args": {"type": "string", "description": "Command arguments as a single string"},
            },
            "required": ["command"],
        },
    ),
    SlashArguments,
    _run,
)
