"""`foldmark demo`: runs a dozen commands on a sample session, and prints each with its answer."""

import io
import shlex
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from shutil import which
from typing import TypeVar

import click

import foldmark
from foldmark.log import Agent
from foldmark.operations.history import operations

SAMPLE = "notes-cli.jsonl"
LONGEST = 24
"""Maximum number of lines of an answer to print; the middle of a longer answer is left out."""

Run = Callable[[list[str]], int]
_T = TypeVar("_T")


class _Demo:
    def __init__(self, run: Run, db: Path) -> None:
        self.run, self.db, self.step, self.failed = run, db, 0, False

    def steps(self, sample: Path) -> None:
        self.explain("A coding agent's session becomes a conversation. The file is not changed.")
        self.foldmark("import", str(sample), "--as", "notes", shown=f"foldmark import {SAMPLE} --as notes")
        self.explain("This is what a model would see of it: whole turns, each with its id and its size.")
        self.foldmark("context", "show", "notes")
        self.explain("One turn was an experiment that led nowhere. It leaves the context, not the log.")
        self.foldmark("do", "notes", f"/context drop {self.ask(_full_text_turn)}")
        self.explain("Set a checkpoint before trying something ...")
        self.foldmark("do", "notes", "/mark BEFORE_PLUGINS")
        self.explain("... try it (the offline model answers here; it is no language model and says so) ...")
        self.chat("Let us load plugins from entry points.", "And sandbox them in a subprocess.")
        self.explain("... and go back. The two turns leave the context; the checkpoint stays.")
        self.foldmark("do", "notes", "/rewind BEFORE_PLUGINS")
        self.explain("Changed your mind? Every operation can be taken back, in any order.")
        self.foldmark("do", "notes", f"/restore {self.ask(_newest_operation)}")
        self.explain("Delegate: mark, say the goal, fork from the mark.")
        self.foldmark("do", "notes", "/mark RESEARCH")
        self.chat("Find out how other note tools lock their files. Report in five lines.")
        self.foldmark("do", "notes", "/fork RESEARCH")
        self.explain("The child was born with exactly that goal; the parent keeps everything.")
        self.foldmark("context", "show", self.ask(lambda notes: notes.children[-1].id[:8]))
        self.explain("An error names the alternatives, and nothing is written.")
        self.foldmark("do", "notes", "/clear BEFORE_PLUGIN", wrong=True)
        self.explain("The stored segments are compared with a full replay of the log.")
        self.foldmark("doctor", "--repair")

    def explain(self, text: str) -> None:
        self.step += 1
        print(f"\n{self.step}. {text}\n")

    def foldmark(self, *arguments: str, shown: str | None = None, wrong: bool = False) -> None:
        """Run a command and print it with its answer. With `wrong`, it must fail."""
        print(f"$ {shown or shlex.join(('foldmark', *arguments))}", flush=True)
        answer = io.StringIO()
        with redirect_stdout(answer), redirect_stderr(answer):
            code = self.run(["--db", str(self.db), *arguments])
        lines = answer.getvalue().rstrip("\n").split("\n")
        if len(lines) > LONGEST:
            lines[LONGEST // 2 : -LONGEST // 2] = [f"   [... {len(lines) - LONGEST} more lines ...]"]
        if lines != [""]:
            print("\n".join(lines))
        self.failed = self.failed or wrong != bool(code)

    def chat(self, *lines: str) -> None:
        """Chat through a pipe."""
        typed, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO("\n".join(lines).encode()))
        try:
            self.foldmark("chat", "notes", shown=f"printf '%s\\n' {shlex.join(lines)} | foldmark chat notes")
        finally:
            sys.stdin = typed

    def ask(self, question: Callable[[Agent], _T]) -> _T:
        """Return the answer to a question about the current state of the conversation `notes`."""
        with foldmark.open(str(self.db), create=False) as log:
            return question(log.agent("notes"))


def _newest_operation(agent: Agent) -> int:
    with agent.reading() as (moment, at):
        return operations(moment, at)[-1].event.id


def _full_text_turn(agent: Agent) -> int:
    prompts = (message for message in agent.context().messages if message.kind == "user")
    return next(message.turn_id or message.id for message in prompts if "full-text" in message.content)


@click.command()
@click.option("--chat", "go_on", is_flag=True, help="Go on in the chat afterwards, if there is a terminal.")
def demo(go_on: bool) -> int:
    """Walk through Foldmark on a sample session."""
    import tempfile  # here, since `foldmark --help` loads every command
    from importlib.resources import as_file, files

    from foldmark.cli.program import run

    with as_file(files("foldmark") / "samples" / SAMPLE) as sample:
        shown = _Demo(run, Path(tempfile.mkdtemp(prefix="foldmark-demo-")) / "demo.db")
        shown.steps(sample)
    if shown.failed:
        return 1
    program = "foldmark" if which("foldmark") else shlex.quote(sys.argv[0])
    print(_NEXT.format(foldmark=program, db=shlex.quote(str(shown.db))))
    if go_on and sys.stdin.isatty() and sys.stdout.isatty():
        return run(["--db", str(shown.db), "chat", "notes"])
    return 0


_NEXT = """
What to try next:
  {foldmark} --db {db} chat notes
      go on in this conversation; /help lists the commands, Ctrl-D leaves
  {foldmark} --db {db} context show notes --json
      the same context as data
  {foldmark} import ~/.claude/projects/*/SESSION.jsonl --as mine
      one of your own sessions, into your own database
  {foldmark} chat
      a conversation of your own
"""
