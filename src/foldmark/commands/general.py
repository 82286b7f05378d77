"""Commands about the tool itself."""

from foldmark.commands.registry import Command, CommandCall
from foldmark.log import Result
from foldmark.operations.effects import LeaveChat


def _help(call: CommandCall) -> Result:
    wanted = call.get("COMMAND")
    commands = call.registry.commands
    if wanted is None:
        shown = [command for command in commands.values() if call.actor in command.who]
    else:
        name = wanted.lstrip("/")
        shown = [each for each in commands.values() if each.name == name or each.name.startswith(f"{name} ")]
        if not shown:
            raise call.registry.unknown(name)
    width = max(len(command.synopsis) for command in shown)
    lines = [f"{command.synopsis:<{width}}  {command.help}" for command in shown]
    if wanted is not None:
        lines += [f"  {option:<18}  {what}" for command in shown for option, what in command.options]
    rows = [
        {"usage": each.synopsis, "help": each.help, **({"options": dict(each.options)} if each.options else {})}
        for each in shown
    ]
    return Result("\n".join(lines), None, {"commands": rows})


def _exit(_: CommandCall) -> Result:
    return Result("", effect=LeaveChat())


GENERAL = (
    Command("help", "[COMMAND...]", "List the commands, or explain one.", _help, at_once=True),
    Command("exit", "", "Leave the chat; everything is kept.", _exit),
)
