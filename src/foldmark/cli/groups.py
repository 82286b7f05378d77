"""Groups of commands: an unknown command names what was probably meant, and an error names the command that it is
about."""

from typing import Any

import click

from foldmark.core.wording import nearest


class Group(click.Group):
    """A group that says what an unknown command may mean, and adds the command's name to errors of options without
    it."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not ctx.resilient_parsing and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            meant = self.unknown(ctx, args)
            raise click.UsageError(f"there is no command '{args[0][:40]}'{'; ' if meant else ''}{meant}", ctx)
        return super().resolve_command(ctx, args)

    def unknown(self, ctx: click.Context, words: list[str]) -> str:
        """Return what was probably meant by words that begin with no command; empty if that is unknown."""
        known = self.list_commands(ctx)
        if near := nearest(words[0], known, 3):
            return f"did you mean {' or '.join(near)}?"
        return f"did you mean `{ctx.command_path} {known[0]} {' '.join(words)[:80]}`?" if len(known) == 1 else ""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            command = self.get_command(ctx, ctx.invoked_subcommand or "")
            if error.ctx is None and command is not None:
                error.ctx = click.Context(command, ctx, ctx.invoked_subcommand)
            raise
