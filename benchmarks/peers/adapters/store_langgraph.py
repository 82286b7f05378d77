"""`langgraph` with `langgraph-checkpoint-sqlite`: a graph of one node, with and without DeltaChannel.

https://docs.langchain.com/oss/python/langgraph/persistence
"""

import sqlite3
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages
from store_peer import Store, role, serve_store, sqlite_settings, text

CONFIG: Any = {"configurable": {"thread_id": "bench"}}


class Whole(TypedDict):
    """The documented state of a chat."""

    messages: Annotated[list, add_messages]


class Delta(TypedDict):
    """The same with only the changes in each checkpoint."""

    messages: Annotated[list, DeltaChannel(_messages_delta_reducer)]


class Graph(Store):
    """A turn is `graph.invoke`: the person's message goes in, the node answers."""

    step = 2

    def make(self) -> Any:
        """Return the compiled graph on its own connection."""
        state = Delta if self.variant.get("delta") else Whole
        builder = StateGraph(state)
        builder.add_node("answer", lambda state: {"messages": [AIMessage(text(self.number + 1))]})
        builder.add_edge(START, "answer")
        builder.add_edge("answer", END)
        self.db = sqlite3.connect(self.path, check_same_thread=False)
        return builder.compile(checkpointer=SqliteSaver(self.db))

    def open(self) -> None:
        """Compile the graph."""
        self.number = 0
        self.graph = self.make()

    def close(self) -> None:
        """Close the connection."""
        self.db.close()

    def settings(self) -> str:
        """Ask the saver's connection."""
        self.graph.get_state(CONFIG)
        return sqlite_settings(self.db.execute)

    def append(self, number: int) -> None:
        """Run one turn; each checkpoint is written before the next step begins."""
        self.number = number
        self.graph.invoke({"messages": [HumanMessage(text(number))]}, CONFIG, durability="sync")

    def fill(self, numbers: range) -> None:
        """Put many messages into one checkpoint."""
        kinds = {"user": HumanMessage, "assistant": AIMessage}
        some = [kinds[role(each)](text(each)) for each in numbers]
        self.graph.update_state(CONFIG, {"messages": some}, as_node="answer")

    def request(self) -> int:
        """Read the messages of the state, which the node sends."""
        kept, graph = self.db, self.make()
        messages = graph.get_state(CONFIG).values["messages"]
        self.db.close()
        self.db = kept
        return len(messages)

    def remember(self) -> None:
        """Keep the id of the newest checkpoint."""
        self.place = self.graph.get_state(CONFIG).config

    def rewind(self, back: int) -> None:
        """Go on from the kept checkpoint: what follows it in the thread begins there."""
        self.graph.update_state(self.place, {"messages": []}, as_node="answer")

    def fork(self) -> None:
        """Fork from the kept checkpoint, in the same thread, which is the fork that there is."""
        self.rewind(0)


serve_store(Graph)
