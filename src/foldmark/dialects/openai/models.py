"""The capabilities of OpenAI's own models, by their names. Other servers use the same dialect for their own models;
nothing is assumed about these except the rules here. Sources: developers.openai.com/api/docs/guides/reasoning and
/prompt-caching, and refusals of the API as users report them."""

import re
from collections.abc import Iterable

from foldmark.core.assembly.prompt import Prompt
from foldmark.dialects.bodies import Json
from foldmark.wires.parts import text_parts
from foldmark.wires.responses import FUNCTION_OUTPUT

_OWN = re.compile(r"(?:ft:)?(?:gpt-(?!oss)|chatgpt-|codex-|o\d)")
_GPT = re.compile(r"gpt-(\d+)(?:\.(\d+))?(?![\d.])")
_BLIND = re.compile(r"(?:ft:)?(?:gpt-3|gpt-4(?![.\do])|o1-mini|o1-preview|o3-mini)")
_PADDED = re.compile(r"(?:.*/)?deepseek-(?:v[4-9]|chat|reasoner)", re.IGNORECASE)


def own(model: str) -> bool:
    """Return True if the model is one of OpenAI's own, by the name that OpenAI gives it."""
    return _OWN.match(model) is not None


def reasons(model: str) -> bool:
    """Return True if one of OpenAI's own models thinks before it answers: `gpt-5` and later, except those named `chat`,
    and the o-series."""
    if model.startswith(("o1-mini", "o1-preview")):
        return False
    return _version(model) >= (5, 0) or re.match(r"o\d", model) is not None


def effort(model: str, thinking: str) -> str | None:
    """Return the reasoning effort in OpenAI's words; None to leave it out: for the model's own default, and for models
    that do not think or are not OpenAI's.

    The word for "off" depends on the model: `none` since gpt-5.1, `minimal` for gpt-5; others always think, and `low`
    is their minimum. For the `pro` models only `high` is certain to be accepted.
    """
    if thinking == "default" or not reasons(model):
        return None
    if "-pro" in model:
        return thinking if thinking == "high" else None
    if thinking != "off":
        return thinking
    if "codex" in model or _version(model) < (5, 0):
        return "low"
    return "none" if _version(model) >= (5, 1) else "minimal"


def tools_without_thinking(model: str) -> bool:
    """Return True if Chat Completions gives this model tools only if it does not think: "Function tools with
    reasoning_effort are not supported for gpt-5.6 in /v1/chat/completions. To use function tools, use /v1/responses or
    set reasoning_effort to 'none'.\""""
    return _version(model) >= (5, 2) and "-pro" not in model and "codex" not in model


def breakpoints(model: str) -> bool:
    """Return True if the model's cache works by breakpoints alone, so that a request should set some: "For GPT-5.6
    models and later model families". Other models do not support them."""
    return _version(model) >= (5, 6)


def takes_documents(model: str) -> bool:
    """Return True if the model reads PDF documents: OpenAI's own models with vision ("gpt-4o and later models"), and
    under OpenRouter's names these, Claude and Gemini. Other servers refuse a request with an unknown part."""
    name = model.removeprefix("openai/")
    return (own(name) and _BLIND.match(name) is None) or model.startswith(("anthropic/claude", "google/gemini"))


def system_parts(prompt: Prompt, kind: str) -> list[Json]:
    """Return the system text as parts of a `kind`, with a breakpoint after its stable part."""
    stable = [_marked(part) for part in text_parts(prompt.stable, kind)]
    return [*stable, *text_parts(prompt.system[len(prompt.stable) :], kind)]


def mark_newest(messages: Iterable[Json], kind: str) -> None:
    """Set a breakpoint on the newest message or item that can carry one: a user message or a tool result that is not
    blank. Its text becomes a part of a `kind`."""
    for message in reversed(list(messages)):
        if message.get("role") in ("user", "tool") or message.get("type") == FUNCTION_OUTPUT:
            field = "output" if "output" in message else "content"
            content = message[field]
            if parts := text_parts(content, kind) if isinstance(content, str) else content:
                message[field] = [*parts[:-1], _marked(parts[-1])]
                return


def _marked(part: Json) -> Json:
    return {**part, "prompt_cache_breakpoint": {"mode": "explicit"}}


def wants_reasoning_content(model: str) -> bool:
    """Return True if the model requires a non-empty `reasoning_content` in each of its own messages once there are
    tools: "The `reasoning_content` in the thinking mode must be passed back to the API." (DeepSeek, V4)"""
    return _PADDED.match(model) is not None


def _version(model: str) -> tuple[int, int]:
    """Return the version in the name of a GPT model that may think; (0, 0) for all others."""
    found = _GPT.match(model)
    if found is None or "-chat" in model:
        return (0, 0)
    return int(found[1]), int(found[2] or 0)
