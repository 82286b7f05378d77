"""`foldmark live`: runs a coding agent whose requests go through a gateway [SPEC 5.7]."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import click
import msgspec

from foldmark.app import Setup
from foldmark.cli.parameters import reporting
from foldmark.cli.process import leaving, show
from foldmark.core.errors import CommandError
from foldmark.core.wording import count, listing
from foldmark.rendering import harmless

if TYPE_CHECKING:
    import socket

    from foldmark.live.live_agent import LiveAgent
    from foldmark.live.tally import Passed

DEFAULT = "claude"


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("agent", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--serve", is_flag=True, help="Run the gateway alone, and print what to set in the agent.")
@click.option("--status", is_flag=True, help="Show the sessions that were recorded, and what was taken out of them.")
@click.option(
    "--upstream",
    "given",
    metavar="[DIALECT=]URL",
    multiple=True,
    help="The provider's base URL; by default the one that AGENT would use. DIALECT is anthropic, openai or gemini.",
)
@click.option("--listening", type=int, hidden=True)
@reporting
def live(
    setup: Setup,
    agent: str | None,
    arguments: tuple[str, ...],
    serve: bool,
    status: bool,
    given: tuple[str, ...],
    listening: int | None,
    as_json: bool,
) -> int:
    """Run a coding agent and edit its context while it works.

    AGENT is claude, codex, gemini, one that an installed package adds, or any other program that takes its base URL
    from ANTHROPIC_BASE_URL, OPENAI_BASE_URL or GOOGLE_GEMINI_BASE_URL. ARGUMENTS are passed on to it.

    The agent's requests go through Foldmark, which records its session as a conversation. Operations on that
    conversation act from the agent's next request on. Type them in the agent, as in :context, :drop 18, :restore 1204
    or :help; or in another terminal: foldmark do NAME '/context drop 18'.
    """
    if status:
        _status(setup, as_json=as_json)
        return 0
    _check_installed()
    # Imported here: `foldmark --help` loads every command, and these take 10 ms.
    import secrets
    import socket

    from foldmark.live.addresses import outward
    from foldmark.live.gateway import loopback_socket
    from foldmark.live.live_agent import agent_named, agent_names
    from foldmark.live.running import SECRET, installed, run, supervised
    from foldmark.live.tally import Tally
    from foldmark.live.upstreams import check_proxies, upstream_url
    from foldmark.live.wires import wire_named

    if agent is None and not serve and listening is None:
        raise click.UsageError(f"name the agent to run: {listing(agent_names())}, or another program")
    named = agent_named(agent or DEFAULT)
    if not serve:
        named.check_runs()
    os.environ.update(named.told(arguments))
    base = named.given(given) if given else named.upstreams(os.environ)
    os.environ.update(outward(named.environment(os.environ)))  # the gateway asks in the agent's place
    check_proxies()
    if listening is not None:
        return _serve(setup, named, base, os.environ.pop(SECRET, ""), socket.socket(fileno=listening))
    if serve:
        return _serve(setup, named, base)
    # Report errors before the agent takes the screen.
    installed(named)
    if named.wire:
        wire_named(named.wire)
    for each in [base] if isinstance(base, str) else base.values():
        upstream_url(each)
    own = loopback_socket()
    secret = secrets.token_urlsafe(24)
    url = f"http://127.0.0.1:{own.getsockname()[1]}/{secret}"
    with setup.log(create=True) as log:
        sign = log.given.live_sign
    folder = Path(setup.db).parent if Path(setup.db).is_absolute() else Path.cwd()
    where = f"loopback 127.0.0.1:{own.getsockname()[1]}"
    print(f"foldmark: ready; {sign}help inside the agent · {where}", file=sys.stderr)
    upstreams = [base] if isinstance(base, str) else [f"{dialect}={each}" for dialect, each in base.items()]
    words = [word for each in upstreams for word in ("--upstream", each)]
    tally = Tally()
    with own, supervised(own, secret, ["--db", setup.db, "live", *words], folder / "live.log", tally.read, named.name):
        code = run(named, arguments, url, base)
    print(harmless(f"foldmark: {tally.closing(named.resumed)}"), file=sys.stderr)
    return code


def _serve(
    setup: Setup,
    agent: "LiveAgent",
    base: str | dict[str, str],
    secret: str = "",
    own: "socket.socket | None" = None,
) -> int:
    """Run a gateway at a socket that another process has made, or at a new one, whose address is printed."""
    import logging
    from hashlib import blake2b

    from foldmark.live.gateway import Gateway
    from foldmark.live.running import READY
    from foldmark.live.sessions import Sessions
    from foldmark.live.tally import Tally

    logging.basicConfig(format="%(asctime)s %(name)s %(message)s")
    with setup.log(create=True) as log:
        run = blake2b(secret.encode(), digest_size=16).hexdigest() if secret else ""
        sessions = Sessions(log, Path.cwd().name or "/", base, os.environ, run=run, client=agent)
        sessions.tally = Tally() if own is None else Tally(_report)
        try:
            with (
                leaving(),
                Gateway(base, secret=secret, sessions=sessions, listening=own, environment=os.environ) as gateway,
            ):
                if own is None:
                    for variable, url in agent.variables(gateway.url, base).items():
                        print(f"{variable}={url}", flush=True)
                    print("Set this where the agent runs. Ctrl-C ends the gateway.", file=sys.stderr)
                    with suppress(KeyboardInterrupt):
                        Event().wait()
                else:
                    print(READY, flush=True)
                    sys.stdin.buffer.read()  # standard input ends with the process that started this one
        finally:
            sessions.close()
        if own is None:
            print(harmless(f"foldmark: {sessions.tally.closing(agent.resumed)}"), file=sys.stderr)
    return 0


def _report(passed: "Passed") -> None:
    """Report a request to the process that started this gateway, unless that has ended."""
    with suppress(OSError):
        print(msgspec.json.encode(passed).decode(), flush=True)


def _check_installed() -> None:
    from importlib.util import find_spec

    missing = [name for name in ("httpx2", "starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        from foldmark.installation import installs

        raise CommandError(f"the extra `live` is not installed ({listing(missing)}); {installs('live')}")


def _status(setup: Setup, *, as_json: bool) -> None:
    from foldmark.live.status import statuses

    with setup.log(create=False) as log:
        found = statuses(log)
    lines = [line for each in found for line in each.lines]
    if not found:
        lines = ["No session was recorded yet; `foldmark live claude` records one."]
    elif len(found) > 1:
        lines.append(count(len(found), "session"))
    show({"sessions": [each.data() for each in found]}, "\n".join(lines), as_json)
