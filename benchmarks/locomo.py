"""Recall on LoCoMo: how much of the evidence for its questions a search finds [SPEC 7; docs/reference/recall.md].

FILE is a LoCoMo file (`locomo10.json` of github.com/snap-research/locomo, CC BY-NC 4.0, or a part of it); its data are
not part of Foldmark. Each conversation becomes its own log (`--scope apart`), as LoCoMo's figures are usually reported;
or all are in one log, and a question is asked only in its conversation (`conversation`) or in everything (`all`).

A message is `(date) Speaker: text` (`--form dated`), or `Speaker: text` with the date as its time (`plain`). The first
speaker is the user, the second the assistant. Ids of evidence are read leniently ("D8:6; D9:17", "D:11:26"); ids that
no message has are left out, as are questions that have no other ids.

`--baseline` measures SQLite's FTS5 alone instead: BM25, Porter's stems, any of the question's words. `--without`
disables a part of the ranking and can be repeated. `--write SET` writes the questions as `question_sets.py` reads them.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import apsw
from question_sets import Answer, QuestionSet, embedded, measure, of_set, parse, places, table

import foldmark
from foldmark.core.search import Mode
from foldmark.recall import ranking
from foldmark.recall.ranking import days

KS = (5, 10, 20)

WITHOUT: dict[str, Callable[[], None]] = {
    "neighbours": lambda: setattr(ranking, "CLOSE", 0),
    "passage": lambda: setattr(ranking, "PASSAGE", 0.0),
    "idle": lambda: setattr(ranking, "IDLE", 0.0),
    "beside": lambda: setattr(ranking, "BESIDE", -1),
    "asking": lambda: setattr(ranking, "ASKING", 0.0),
    "answering": lambda: setattr(ranking, "ANSWERING", 0.0),
    "timed": lambda: setattr(ranking, "TIMED", 0.0),
    "days": lambda: setattr(ranking, "days", lambda _, at: days("", at)),
    "named": lambda: setattr(ranking, "NAMED", 0.0),
}
"""Parts of the ranking, and how to disable each."""

Talk = dict[str, Any]
"""A conversation of a LoCoMo file with its questions."""


def when(told: str) -> datetime:
    """Parse a LoCoMo time, such as "1:56 pm on 8 May, 2023"."""
    return datetime.strptime(told, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)


def sessions(talk: Talk) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the time of each session of a conversation and its messages, in order."""
    said = talk["conversation"]
    numbers = sorted(int(match[1]) for key in said if (match := re.fullmatch(r"session_(\d+)", key)) and said[key])
    return ((said[f"session_{number}_date_time"], said[f"session_{number}"]) for number in numbers)


def converted(talk: Talk, form: str) -> Iterator[dict[str, Any]]:
    """Yield a conversation as lines of a question set."""
    name, first, known = talk["sample_id"], talk["conversation"]["speaker_a"], set()
    for date, said in sessions(talk):
        for turn in said:
            known.add(turn["dia_id"])
            text = f"{turn['speaker']}: {turn['text']}"
            message = {
                "id": turn["dia_id"],
                "conversation": name,
                "role": "user" if turn["speaker"] == first else "assistant",
                "text": f"({date}) {text}" if form == "dated" else text,
                "at": when(date).isoformat(),
            }
            yield {"message": message}
    for each in talk["qa"]:
        named = [f"D{int(d)}:{int(n)}" for text in each["evidence"] for d, n in re.findall(r"D:?(\d+):(\d+)", text)]
        evidence = [id for id in dict.fromkeys(named) if id in known]
        about = {"conversation": name, "category": each["category"]}
        yield {"question": each["question"], "evidence": evidence, **about, "unknown": len(set(named) - known)}


def as_set(lines: Sequence[dict[str, Any]]) -> QuestionSet:
    return parse(json.dumps(line).encode() for line in lines)


def found_in(sets: Sequence[QuestionSet], modes: Sequence[Mode], *, apart: bool) -> dict[Mode, list[Answer]]:
    """Return the answers in each mode, each set in its own log."""
    answers: dict[Mode, list[Answer]] = {mode: [] for mode in modes}
    for each in sets:
        with foldmark.open(":memory:", settings={}) as log:
            asked = of_set(log, each, apart=apart)
            embedded(log, modes)
            found = measure(log, asked, modes, max(KS))
        for mode in modes:
            answers[mode] += found[mode]
    return answers


def baseline(sets: Sequence[QuestionSet]) -> list[Answer]:
    """Return the answers of FTS5 alone."""
    answers = []
    for each in sets:
        db = apsw.Connection(":memory:")
        db.execute("CREATE VIRTUAL TABLE said USING fts5 (text, tokenize = 'porter unicode61 remove_diacritics 2')")
        db.executemany("INSERT INTO said (rowid, text) VALUES (?, ?)", enumerate(m.text for m in each.messages))
        for question, there in zip(each.questions, places(each), strict=True):
            if there:
                began = perf_counter()
                words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question.text))
                asked = "SELECT rowid FROM said WHERE said MATCH ? ORDER BY rank LIMIT ?"
                ranks = {id: rank for rank, (id,) in enumerate(db.execute(asked, (words, max(KS))), 1)}
                answers.append(Answer(question, tuple(map(ranks.get, there)), perf_counter() - began, ""))
    return answers


def main() -> int:
    """Convert, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--mode", choices=["auto", "text", "vector", "both", "all"], default="text")
    parser.add_argument("--form", choices=["dated", "plain"], default="dated")
    parser.add_argument("--scope", choices=["apart", "conversation", "all"], default="apart")
    parser.add_argument("--without", choices=list(WITHOUT), action="append", default=[])
    parser.add_argument("--baseline", action="store_true")
    parser.add_argument("--by-conversation", action="store_true", help="a table for each as well")
    parser.add_argument("--write", metavar="SET", type=Path)
    options = parser.parse_args()
    if options.file is None:
        print("not measured: LoCoMo's data are no part of Foldmark; name its file")
        return 0
    talks = [list(converted(talk, options.form)) for talk in json.loads(options.file.read_text(encoding="utf-8"))]
    every = [line for lines in talks for line in lines]
    asked = [line for line in every if "question" in line]
    print(
        f"{len(talks)} conversations, {len(every) - len(asked):,} messages, {len(asked):,} questions, of which "
        f"{sum(not line['evidence'] for line in asked)} have no evidence; {sum(line['unknown'] for line in asked)} ids "
        f"that no message has. {options.form}, {options.scope}, without {', '.join(options.without) or 'nothing'}."
    )
    if options.write:
        options.write.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in every), "utf-8")
    for each in options.without:
        WITHOUT[each]()
    sets = list(map(as_set, talks)) if options.scope == "apart" else [as_set(every)]
    modes: Sequence[Mode] = ("text", "vector", "both") if options.mode == "all" else (options.mode,)
    if options.baseline:
        print("\n".join(["", *table("FTS5 alone", baseline(sets), KS)]))
        return 0
    found = found_in(sets, modes, apart=options.scope == "conversation")
    for mode, answers in found.items():
        beside = found["text"] if mode == "both" and options.mode == "all" else ()
        print("\n".join(["", *table(mode, answers, KS, beside)]))
        names = dict.fromkeys(answer.question.conversation for answer in answers)
        for name in names if options.by_conversation else ():
            here = [answer for answer in answers if answer.question.conversation == name]
            print("\n".join(["", *table(f"{mode}, {name}", here, KS)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
