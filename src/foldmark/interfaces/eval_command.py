"""`foldmark eval recall`: how much of what a search should find it finds [SPEC 7]."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Literal

import click

import foldmark
from foldmark.core.ports import Progress
from foldmark.core.wording import count
from foldmark.interfaces.render import harmless, json_text
from foldmark.interfaces.setup import Setup

_MODES = ("auto", "text", "vector", "both", "all")


@click.group("eval")
def evaluate() -> None:
    """Measure how well Foldmark does."""


def _numbers(context: click.Context, option: click.Parameter, value: str) -> tuple[int, ...]:
    """Numbers of hits, each once and in order."""
    found = [int(each) for each in value.split(",") if each.strip().isdecimal() and 1 <= int(each[:9]) <= 1000]
    if len(found) != len(value.split(",")):
        raise click.BadParameter(f"'{value:.40}' is no list of numbers from 1 to 1000, as in 5,10,20", context, option)
    return tuple(sorted(set(found)))


@evaluate.command("recall")
@click.argument("questions", type=click.File("rb"))
@click.option(
    "--k", "ks", metavar="N,N", default="5,10,20", show_default=True, callback=_numbers, help="After how many."
)
@click.option(
    "--mode", type=click.Choice(_MODES), default="auto", show_default=True, help="Words, meanings; all: each."
)
@click.option("--scope", type=click.Choice(["conversation", "all"]), default="conversation", show_default=True,
              help="Ask a question in the conversation that it names, or everywhere.")  # fmt: skip
@click.option("--misses", "missed", metavar="N", default=0, type=click.IntRange(0), help="Show the N worst as well.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, each question included.")
@click.pass_obj
def measure_recall(
    setup: Setup,
    questions: IO[bytes],
    ks: tuple[int, ...],
    mode: Literal["auto", "text", "vector", "both", "all"],
    scope: str,
    missed: int,
    as_json: bool,
) -> int:
    """Measure how much a search finds of what answers QUESTIONS.

    A file of JSON Lines with questions and the ids of the messages that answer them; with these messages, or they are
    events of the database. docs/recall.md describes it. recall@k is the share of a question's evidence among the
    first k hits, hit@k that of questions with any, on the average. Nothing is written. Ctrl-C shows what was measured
    so far.
    """
    from foldmark.core.search import Mode
    from foldmark.interfaces import eval_table as render
    from foldmark.interfaces.evaluating import embedded, measure, of_database, of_set, texts
    from foldmark.recall.question_sets import parse

    wanted, file = parse(questions), getattr(questions, "name", "standard input")
    own, apart = bool(wanted.messages), scope == "conversation"
    modes: tuple[Mode, ...] = ("text", "vector", "both") if mode == "all" else (mode,)
    with foldmark.open(":memory:", settings=setup.given) if own else setup.log(create=False) as log:
        asked = (of_set if own else of_database)(log, wanted, apart=apart)
        with _watching("message") as progress:
            if own:
                embedded(log, modes, progress)
        with _watching("question") as progress:
            measured, interrupted = measure(log, asked, modes, max(ks), progress)
        done = len(measured[modes[0]])
        if not done:
            raise click.Abort
        if as_json:
            told = {"file": file, "scope": scope, "without_evidence": len(wanted.questions) - len(asked)}
            told |= {"left": len(asked) - done, "modes": render.data(measured, ks)}
            print(json_text(told))
        else:
            lines = render.summary(file, wanted, apart=apart)
            for each, answers in measured.items():
                beside = measured["text"] if each == "both" and mode == "all" else ()
                lines += ["", *render.table(each, answers, ks, beside)]
            if mode == "all":
                lines += ["", render.verdict(measured["text"], measured["both"], ks)]
            events = {each.question: each.events for each in asked}
            for each, answers in measured.items() if missed else ():
                lines += render.misses(each, answers, max(ks), missed, lambda q: texts(log, events[q]))
            print(harmless("\n".join(lines)))
    if interrupted:
        print(f"foldmark: interrupted; {count(len(asked) - done, 'question')} were not asked", file=sys.stderr)
    return 130 if interrupted else 0


@contextmanager
def _watching(what: str) -> Iterator[Progress]:
    """Says on a terminal's standard error how far it is."""
    shown = False

    def tell(done: int, total: int) -> None:
        nonlocal shown
        if sys.stderr.isatty():
            shown = True
            print(f"\r{what} {done:,} of {total:,}", end="", file=sys.stderr, flush=True)

    try:
        yield tell
    finally:
        if shown:
            print(file=sys.stderr)
