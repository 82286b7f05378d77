"""SQLite's FTS5 with its own rank, BM25, over any of a question's words."""

import re
import sqlite3
from pathlib import Path
from time import process_time

from lines import serve

TABLES = {}


def load(by: str, name: str, messages: list, folder: str) -> int:
    """Index messages, each [conversation, role, text, time or None]; return the bytes on disk."""
    path = Path(folder, f"{name} {by}.db")
    db = TABLES[by, name] = sqlite3.connect(path)
    stems = ", tokenize = 'porter'" if by.endswith("stems") else ""
    db.execute(f"CREATE VIRTUAL TABLE said USING fts5 (text{stems})")
    db.executemany("INSERT INTO said (rowid, text) VALUES (?, ?)", ((at, each[2]) for at, each in enumerate(messages)))
    db.commit()
    return path.stat().st_size


def search(by: str, name: str, questions: list[str], most: int) -> dict:
    """Return the positions of the hits of each question, and the processor time of all."""
    db = TABLES[by, name]
    began = process_time()
    hits = []
    for question in questions:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
        asked = "SELECT rowid FROM said WHERE said MATCH ? ORDER BY rank LIMIT ?"
        hits.append([id for (id,) in db.execute(asked, (words, most))])
    return {"hits": hits, "seconds": process_time() - began}


serve(load=load, search=search)
