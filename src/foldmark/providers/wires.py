"""Which dialect each provider speaks, and what puts a prompt into it. No SDK is needed for that."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from foldmark.core.prompt import Prompt
from foldmark.core.request import Options, ToolSpec
from foldmark.providers import anthropic, gemini, openai, openai_responses

Encode = Callable[[str, Prompt, Sequence[ToolSpec], Options], dict[str, Any]]


class Wire(NamedTuple):
    """A provider's dialect, what puts a prompt into it, and the module over its SDK whose `connect(model, access)` is
    the provider."""

    dialect: str
    encode: Encode
    module: str


WIRES = {
    "anthropic": Wire("anthropic", anthropic.encode, "anthropic_api"),
    "openai": Wire("openai", openai.encode, "openai_api"),
    "openai_responses": Wire("openai", openai_responses.encode, "openai_responses_api"),
    "gemini": Wire("gemini", gemini.encode, "gemini_api"),
    "gemini_gca": Wire("gemini_gca", gemini.encode_gca, "gemini_gca_api"),
    "openrouter": Wire("openai", openai.encode, "openai_api"),
    "ollama": Wire("openai", openai.encode, "openai_api"),
    "vllm": Wire("openai", openai.encode, "openai_api"),
    "offline": Wire("openai", openai.encode, "offline"),
}
"""Provider -> its wire format. `google` is another name of `gemini`."""
