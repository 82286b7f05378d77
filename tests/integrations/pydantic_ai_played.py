"""A Pydantic AI model that plays prepared answers, and short forms for its messages."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.run import AgentRunResult

import foldmark
from foldmark.core.segments import END, Segment

Answer = str | ModelResponse | Exception | tuple[str, dict[str, Any]] | list[tuple[str, dict[str, Any]]]
"""A model's answer: a text, one or more calls (name, arguments), a whole response, or an exception to raise."""


class Played:
    """Plays one answer for each request. `sent` holds the messages of each request, `asked` the same in short form.

    Without prepared answers it answers "answer 1", "answer 2" and so on.
    """

    def __init__(self, answers: Iterable[Answer] = ()) -> None:
        self._answers: list[Answer] = list(answers)
        self.sent: list[list[ModelMessage]] = []
        self.model = FunctionModel(self._whole, stream_function=self._streamed)

    @property
    def asked(self) -> list[list[str]]:
        return [said(messages) for messages in self.sent]

    def _next(self, messages: list[ModelMessage]) -> Answer:
        self.sent.append(messages)
        answer: Answer = self._answers.pop(0) if self._answers else f"answer {len(self.sent)}"
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _whole(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        match self._next(messages):
            case ModelResponse() as response:
                return response
            case str(text):
                return ModelResponse([TextPart(text)])
            case list(calls):
                return ModelResponse([ToolCallPart(name, args) for name, args in calls])
            case (name, args):
                return ModelResponse([ToolCallPart(name, args)])
        raise AssertionError

    async def _streamed(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        answer = self._next(messages)
        if isinstance(answer, str):
            for word in answer.split(" "):
                yield word + " "
        else:
            calls = answer if isinstance(answer, list) else [answer]
            for index, (name, args) in enumerate(calls):  # type: ignore[misc]
                call_id = f"stream-{len(self.sent)}-{index}"
                yield {index: DeltaToolCall(name, json.dumps(args), tool_call_id=call_id)}


def run(agent: Agent[Any, Any], *args: Any, **kwargs: Any) -> AgentRunResult[Any]:
    """Run an agent like `Agent.run_sync`, which would leave its event loop open."""
    return asyncio.run(agent.run(*args, **kwargs))


def said(messages: Iterable[ModelMessage]) -> list[str]:
    """Return each part of the messages that has text as a word with the text: "user: hello", "call: look"."""
    return [text for message in messages for part in message.parts if (text := _WORDS.get(part.part_kind, _none)(part))]


def _none(_: Any) -> str:
    return ""


def _content(word: str) -> Callable[[Any], str]:
    return lambda part: f"{word}: {part.content if isinstance(part.content, str) else len(part.content)}".strip()


_WORDS: dict[str, Callable[[Any], str]] = {
    "system-prompt": _content("system"),
    "user-prompt": _content("user"),
    "text": _content("assistant"),
    "tool-call": lambda part: f"call: {part.tool_name}",
    "tool-return": lambda part: f"result: {part.model_response_str()}",
    "retry-feedback": lambda part: "again",
}


def recorded(agent: foldmark.Agent) -> list[str]:
    """Return the text of every recorded message, visible or not."""
    with agent.log.store.read() as moment:
        return [event.content for event in moment.select((Segment(agent.id, 1, END),))]


def paired(messages: Iterable[ModelMessage]) -> bool:
    """Return True if every call has its result in the next request and every result its call in the response before."""
    waiting: list[str] = []
    for message in messages:
        results = [part.tool_call_id for part in message.parts if part.part_kind == "tool-return"]
        if message.kind == "request":
            if any(call_id not in waiting for call_id in results):
                return False
            waiting = [call_id for call_id in waiting if call_id not in results]
        elif waiting:
            return False
        else:
            waiting = [part.tool_call_id for part in message.parts if part.part_kind == "tool-call"]
    return not waiting
