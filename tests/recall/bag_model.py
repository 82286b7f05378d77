"""An embedding model as another package would provide it, with an entry point: a vector counts the words of a text by
their first letter. At its n-th text the model can send a signal to its own process."""

from __future__ import annotations

from pathlib import Path

NAME = "bag"

_MODULE = """
import itertools, os, re, signal
import numpy as np

class Bag:
    name, dimensions = "bag", 32
    fingerprint = os.environ.get("BAG_FINGERPRINT", "bag-1")
    asked = itertools.count(1)

    def embed(self, texts):
        found = np.zeros((len(texts), 32), np.float32)
        for row, text in zip(found, texts):
            if next(self.asked) == int(os.environ.get("BAG_AT", "0")):
                os.kill(os.getpid(), getattr(signal, os.environ["BAG_SIGNAL"]))
            for word in re.findall(r"[a-z]+", text.lower()):
                row[ord(word[0]) - 97] += 1
            row /= max(1.0, float(np.sqrt(row @ row)))
        return found

    def embed_query(self, text):
        return self.embed([text])[0]
"""


def write_site(site: Path) -> Path:
    """Write a folder for `sys.path` that contains this model, and return it."""
    about = site / "bag-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: bag\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[foldmark.embeddings]\n{NAME} = bag_of_letters:Bag\n")
    (site / "bag_of_letters.py").write_text(_MODULE)
    return site
