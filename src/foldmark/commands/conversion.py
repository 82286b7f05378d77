"""`/import` and `/export`: sessions of coding agents to conversations, and back [SPEC 8]."""

from foldmark.commands.registry import CommandCall, command
from foldmark.core.errors import CommandError
from foldmark.log import Result
from foldmark.log.log import CodingSessions


@command("import [SESSION...]")
def _import(call: CommandCall) -> Result:
    """Import a coding agent's session; without SESSION what is new in this one's."""
    return _sessions(call).bring_in(call.agent, call.get("SESSION"), call.asking.progress)


@command("export [FOLDER...]")
def _export(call: CommandCall) -> Result:
    """Write the context as a new Claude Code session that works in FOLDER."""
    return _sessions(call).write_out(call.agent, call.get("FOLDER"))


def _sessions(call: CommandCall) -> CodingSessions:
    if call.agent.log.coding_sessions is None:
        raise CommandError("this program keeps the log away from the sessions on this machine; use the command line")
    return call.agent.log.coding_sessions


CONVERSION = (_import, _export)
