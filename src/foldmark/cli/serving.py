"""`foldmark mcp`: conversations and archived sessions for other programs' models [SPEC 9]."""

import os
import signal
import sys
from importlib import import_module

import click

from foldmark.app import Setup, embedding
from foldmark.cli.completion import conversations
from foldmark.core.errors import FoldmarkError


@click.command()
@click.argument("name", required=False, shell_complete=conversations)
@click.option("--http", "port", metavar="PORT", type=click.IntRange(0, 65535), help="Listen there; 0 is any free port.")
@click.option("--host", default="127.0.0.1", show_default=True, help="With --http: the address to listen on.")
@click.option("--allow-host", "names", metavar="NAME", multiple=True, help="With --http: a name it is reached by, too.")
@click.pass_obj
def mcp(setup: Setup, name: str | None, port: int | None, host: str, names: tuple[str, ...]) -> None:
    """Serve Foldmark to another program over MCP.

    Over standard input and output, for the program that starts it; or over HTTP, for whoever has the token: that in
    FOLDMARK_MCP_TOKEN, or one that is made. NAME is the conversation that is meant where a call names none.
    """
    if port is None and (host != "127.0.0.1" or names):
        raise click.UsageError("--host and --allow-host go with --http")
    setup.given  # noqa: B018 - what is wrong with the settings is said before anybody connects
    try:
        import_module("mcp")
    except ImportError:
        raise FoldmarkError("the package `mcp` is not installed; `pip install 'foldmark[mcp]'`") from None
    import anyio

    from foldmark.mcp.conversations import Conversations
    from foldmark.mcp.server import server

    conversations = Conversations(setup, name)
    if port is None:
        from foldmark.mcp.stdio import serve

        if sys.platform != "win32":
            # The thread that waits for a line cannot be interrupted; there is nothing to tidy up either.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        try:
            with embedding(setup.db, setup.given):
                anyio.run(serve, server(conversations, here=True))
        except* (BrokenPipeError, ConnectionResetError):
            pass  # nobody is there any more
        return
    from foldmark.mcp import http
    from foldmark.mcp.token import token

    secret, where = token(os.environ)
    with http.listening(host, port) as opened, embedding(setup.db, setup.given):
        said = f"for whoever has the token in {where}"
        if not http.is_loopback(host):
            said += "; other machines may reach it, and nothing is encrypted"
        anyio.run(http.serve, server(conversations, here=False), opened, host, names, secret, said)
