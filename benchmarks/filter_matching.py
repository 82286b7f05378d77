"""How well the local matcher of `/forget` and `/remember` tells topics apart in real sessions [SPEC 4.2].

FOLDER contains the sessions that `filter_criteria.py` names: public test fixtures that are not part of Foldmark. Each
criterion is matched in its own session. A message that matches is right if it belongs to a turn that the criterion
means. The rows compare the matcher with rules that would add turns: all of a matching message's turn, the neighbours
that share rare words with a match, and neighbours in which the person only nods.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import groupby
from math import sqrt
from pathlib import Path

from filter_criteria import CRITERIA, Wanted

import foldmark
from foldmark.core.events import Event
from foldmark.log import Log
from foldmark.recall.matcher import match
from foldmark.recall.ranking import rarity
from foldmark.sessions.conversion.importing import import_session
from foldmark.text.selection import message_text
from foldmark.text.tokens import stems, words
from foldmark.text.vocabulary import COMMON, FUNCTION, NODS

FOLDER = Path(__file__).parents[1].parent / "shared" / "data"

Turns = Sequence[Sequence[Event]]
Rule = Callable[[set[int], Turns], set[int]]
"""Returns the turns that are taken beside those that have a match, by their places."""

REACH, ALIKE = 3, 0.12
"""Number of turns beside a match that may continue its topic, and the cosine of their words that is asked for."""

_PLAIN = frozenset(stems(" ".join(FUNCTION | NODS | COMMON)))


def conversation(log: Log, folder: Path, session: str, talk: int | None) -> Turns:
    """Return the turns of a session."""
    name = f"{Path(session).stem} {talk}"
    if talk is None:
        import_session(log, folder / session, name)
    agent = log.agent(name)
    for kind, text in () if talk is None else spoken(folder / session, talk):
        if kind == "user":
            agent.end_turn()
        agent.append(kind, text)
    messages = [message for message in agent.context().messages if message.kind != "system"]
    return [list(turn) for _, turn in groupby(messages, lambda message: message.turn_id)]


def spoken(file: Path, talk: int) -> Iterator[tuple[str, str]]:
    """Yield the messages of a conversation of tau-bench, calls and results as texts of the assistant."""
    for message in json.loads(file.read_text("utf-8").splitlines()[talk])["messages"]:
        text = message.get("content") or json.dumps(message.get("tool_calls"))
        if message["role"] != "system":
            yield ("user" if message["role"] == "user" else "assistant"), str(text)


def meant(wanted: Wanted, turns: Turns) -> set[int]:
    """Return the ids of the messages of the turns that a criterion means."""
    prompts = [(message.content.strip(), turn) for turn in turns for message in turn if message.kind == "user"]
    found: set[int] = set()
    for each in wanted.turns:
        named = [turn for at, (text, turn) in enumerate(prompts, 1) if at == each or text.startswith(str(each))]
        if not named:
            raise SystemExit(f"{wanted.session} has no prompt {each!r}")
        found |= {message.id for message in named[0]}
    return found


# Rules


def alone(taken: set[int], turns: Turns) -> set[int]:
    """Add nothing."""
    return set()


def nods(taken: set[int], turns: Turns) -> set[int]:
    """Add the turns behind a match in which the person says nothing new ("go on")."""
    return _beside(taken, turns, lambda index, nearer: index > nearer and _nods(turns[index]))


def neighbours(taken: set[int], turns: Turns) -> set[int]:
    """Add the turns beside a match that share enough rare words with it, and the nods behind it."""
    topics = [_topic(turn) for turn in turns]
    holders = Counter(stem for topic in topics for stem in topic)

    def alike(index: int, nearer: int) -> bool:
        some, others = topics[index], topics[nearer]
        lengths = [
            sum(rarity(holders[stem], len(turns)) ** 2 for stem in each) for each in (some & others, some, others)
        ]
        near = len(some & others) > 1 and lengths[0] >= ALIKE * sqrt(lengths[1] * lengths[2]) > 0
        return near or (index > nearer and not some and _nods(turns[index]))

    return _beside(taken, turns, alike)


def _beside(taken: set[int], turns: Turns, joins: Callable[[int, int], bool]) -> set[int]:
    found: set[int] = set()
    for begin in taken:
        for step in (1, -1):
            for index in range(begin + step, begin + step * (REACH + 1), step):
                if not 0 <= index < len(turns) or index in taken or not joins(index, index - step):
                    break
                found.add(index)
    return found


def _topic(turn: Sequence[Event]) -> frozenset[str]:
    text = "\n".join(message_text(each)[:20_000] for each in turn if each.kind in ("user", "assistant"))
    return frozenset(stem for stem in stems(text) if 1 < len(stem) <= 64) - _PLAIN


def _nods(turn: Sequence[Event]) -> bool:
    texts = [words(each.content[:400]) for each in turn if each.kind == "user"]
    return bool(texts) and all(text and all(word in FUNCTION or word in NODS for word in text) for text in texts)


RULES: tuple[tuple[str, Rule], ...] = (
    ("the matcher", alone),
    ("with nods behind a match", nods),
    ("with neighbours that share rare words", neighbours),
)


def measured(folder: Path) -> list[tuple[str, list[tuple[float, float]]]]:
    """Return precision and recall of each rule for each criterion; a criterion without a match has precision 1."""
    rows: list[tuple[str, list[tuple[float, float]]]] = [(name, []) for name, _ in RULES]
    with foldmark.open(":memory:", settings={}) as log:
        read = cache(partial(conversation, log, folder))
        for wanted in CRITERIA:
            turns = read(wanted.session, wanted.talk)
            right = meant(wanted, turns)
            hits = set(match(wanted.criteria, [message for turn in turns for message in turn]))
            taken = {index for index, turn in enumerate(turns) if turn[0].kind == "user" and turn[0].id in hits}
            for (_, rule), (_, found) in zip(RULES, rows, strict=True):
                more = {message.id for index in rule(taken, turns) for message in turns[index]} | hits
                found.append((len(more & right) / len(more) if more else 1.0, len(more & right) / len(right)))
    return rows


def table(rows: Sequence[tuple[str, Sequence[tuple[float, float]]]]) -> list[str]:
    """Return the means as a table in Markdown."""
    lines = [
        f"| {len(CRITERIA)} criteria | precision | recall | F1 | exact | mostly wrong |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, found in rows:
        precision, recall = (sum(each) / len(found) for each in zip(*found, strict=True))
        exact, bad = found.count((1.0, 1.0)), sum(each < 0.5 for each, _ in found)
        harmonic = 2 * precision * recall / (precision + recall)
        lines.append(f"| {name} | {precision:.2f} | {recall:.2f} | {harmonic:.2f} | {exact} | {bad} |")
    return lines


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    parser.add_argument("--each", action="store_true", help="print each criterion as well")
    options = parser.parse_args()
    if not (options.folder / "openai").is_dir():
        print("not measured: the sessions are no part of Foldmark; name the folder that has them")
        return 0
    rows = measured(options.folder)
    print("\n".join(table(rows)))
    for place, wanted in enumerate(CRITERIA if options.each else ()):
        figures = "  ".join(
            f"{precision:.2f} {recall:.2f}" for _, found in rows for precision, recall in [found[place]]
        )
        print(f"{figures}  {wanted.criteria} ({Path(wanted.session).stem} {wanted.talk})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
