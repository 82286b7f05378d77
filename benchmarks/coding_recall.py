"""Recall on coding sessions: how many of 60 questions about files, errors and decisions a search answers [SPEC 7].

FOLDER contains the sessions that `coding_questions.json` names: public test fixtures that are not part of Foldmark.
Each question lists the lines of a session that answer it; a hit is right if it is one of them. All sessions are
searched together, as an archive and as conversations of one log. recall@k is the share of a question's lines among the
first k hits; hit@k is the share of questions with at least one of their lines there.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from question_sets import Answer, Question, table

import foldmark
from foldmark.log.search import search_everything
from foldmark.sessions.archive.reading import searched
from foldmark.sessions.archive.searching import opened
from foldmark.sessions.archive.storing import archive_folder
from foldmark.sessions.archive.syncing import sync

QUESTIONS = Path(__file__).with_name("coding_questions.json")
KS = (1, 5, 10, 20)

Place = tuple[str, int]
"""A file and the number of a line in it."""


def questions() -> list[tuple[Question, list[Place]]]:
    """Return the questions, each with the places that answer it."""
    found = []
    for number, each in enumerate(json.loads(QUESTIONS.read_text("utf-8")), 1):
        places = [(each["file"], line) for line in each["lines"]]
        ids = tuple(f"{file}:{line}" for file, line in places)
        found.append((Question(number, each["question"], ids, None, each["category"]), places))
    return found


def answers(asked: Sequence[tuple[Question, list[Place]]], search: Callable[[str], list[Place]]) -> list[Answer]:
    """Return the result of a search for each question. A line that holds several messages counts at its first hit."""
    found = []
    for question, places in asked:
        began = perf_counter()
        hits = search(question.text)
        seconds = perf_counter() - began
        ranks = {place: rank for rank, place in reversed(list(enumerate(hits, 1)))}
        found.append(Answer(question, tuple(ranks.get(place) for place in places), seconds, ""))
    return found


def in_archive(folder: Path, asked: Sequence[tuple[Question, list[Place]]]) -> list[Answer]:
    """Return the answers of an archive of all sessions."""
    names = {Path(file).name: file for _, places in asked for file, _ in places}
    with TemporaryDirectory() as home:
        environment = {"HOME": home, "FOLDMARK_HOME": home}
        sync(environment, only=[folder / name for name in names.values()])

        def search(query: str) -> list[Place]:
            with opened(archive_folder(environment)) as archive:
                hits = search_everything(query, max(KS), archive=archive, mode="text")
            return [(names[Path(hit.file).name], hit.line) for hit in hits if hit.file and hit.line]

        return answers(asked, search)


def spoken(file: Path, kind: str) -> Iterator[tuple[int, str, str, str | None]]:
    """Yield the messages of a session: the line, the role, the text, the time."""
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        part = 0
        while text := searched(record, kind, part):
            role = "assistant" if record.get("type") == "assistant" else "user"
            yield number, role, text, record.get("timestamp")
            part += 1


def in_log(folder: Path, asked: Sequence[tuple[Question, list[Place]]]) -> list[Answer]:
    """Return the answers of a log in which each session is a conversation."""
    where: dict[int, Place] = {}
    with foldmark.open(":memory:", settings={}) as log:
        for name in dict.fromkeys(file for _, places in asked for file, _ in places):
            agent = log.agent(Path(name).stem)
            kind = "codex" if name.startswith("codex") else "claude"
            with agent.batch():
                for line, role, text, at in spoken(folder / name, kind):
                    where[agent.append(role, text, created_at=at, verbatim=True)] = (name, line)
                agent.end_turn()
        return answers(asked, lambda query: [where[hit.event_id] for hit in log.search(query, max(KS), mode="text")])


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--misses", action="store_true", help="the questions of which nothing is among the first five")
    options = parser.parse_args()
    if options.folder is None:
        print("not measured: the sessions are no part of Foldmark; name the folder that has them")
        return 0
    asked = questions()
    kinds: dict[str | None, int] = defaultdict(int)
    for question, _ in asked:
        kinds[question.category] += 1
    print(f"{len(asked)} questions: {', '.join(f'{number} {kind}' for kind, number in kinds.items())}.")
    for name, found in (("archive", in_archive(options.folder, asked)), ("log", in_log(options.folder, asked))):
        print("\n".join(["", *table(name, found, KS)]))
        for answer in found if options.misses else ():
            if not any(rank and rank <= 5 for rank in answer.ranks):
                print(f"  {answer.question.text} {answer.question.evidence} {answer.ranks}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
