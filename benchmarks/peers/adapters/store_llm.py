"""`llm`: the logs of conversations, written as a plugin writes them.

https://llm.datasette.io/en/stable/logging.html
"""

from typing import Any

import llm
import sqlite_utils
from llm.cli import load_conversation
from llm.logs import LogStore
from llm.parts import TextPart
from store_peer import Store, role, serve_store, sqlite_settings, text


class Answering(llm.Model):
    """A model that answers at once."""

    model_id = "bench"
    can_stream = False
    number = 0

    def execute(self, prompt: Any, stream: bool, response: Any, conversation: Any = None) -> Any:
        """Give the next answer."""
        yield text(self.number)


MODEL = Answering()


class _Plugin:
    @llm.hookimpl
    def register_models(self, register: Any) -> None:
        register(MODEL)


llm.plugins.pm.register(_Plugin())


class Logs(Store):
    """A conversation in the logs. A turn is a prompt, the answer, and `log_to_db`."""

    step = 2

    def open(self) -> None:
        """Open the logs."""
        self.db = sqlite_utils.Database(self.path)
        if self.variant.get("wal"):
            self.db.enable_wal()
        self.store = LogStore(self.db)
        self.talk = llm.Conversation(model=MODEL)

    def close(self) -> None:
        """Close the logs."""
        self.db.close()

    def settings(self) -> str:
        """Ask the connection."""
        return sqlite_settings(self.db.execute)

    def append(self, number: int) -> None:
        """Log one turn."""
        MODEL.number = number + 1
        response = self.talk.prompt(text(number), stream=False)
        response.text()
        response.log_to_db(self.db)

    def fill(self, numbers: range) -> None:
        """Log a turn, store messages after it by the store's own means, and load the conversation that they make."""
        self.append(numbers.start)
        messages = [llm.Message(role=role(each), parts=[TextPart(text=text(each))]) for each in numbers[2:]]
        with self.db.atomic():
            self.store.append(self.talk.id, messages)
        self.talk: Any = load_conversation(self.talk.id, database=self.path)

    def request(self) -> int:
        """Load the conversation as `llm -c` does."""
        talk: Any = load_conversation(self.talk.id, database=self.path)
        return len(talk.loaded_messages)

    def remember(self) -> None:
        """Keep the newest message."""
        self.place = self.store.thread_tip(self.talk.id)

    def rewind(self, back: int) -> None:
        """Make a thread that ends at the kept message, which is the way back that there is."""
        self.store.fork(self.place, forked_from=self.talk.id)

    def fork(self) -> None:
        """Make a thread that begins with all messages."""
        self.store.fork(self.place, forked_from=self.talk.id)


serve_store(Logs)
