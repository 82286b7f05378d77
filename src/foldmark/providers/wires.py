"""Which dialect each provider speaks, and what puts a prompt into it. No SDK is needed for that."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from foldmark.core.answer import Piece
from foldmark.core.config import parse
from foldmark.core.errors import CommandError
from foldmark.core.prompt import Prompt
from foldmark.core.request import Options, ToolSpec
from foldmark.core.wording import listing
from foldmark.providers import anthropic, gemini, openai, openai_responses

Encode = Callable[[str, Prompt, Sequence[ToolSpec], Options], dict[str, Any]]

Parse = Callable[[dict[str, Any]], tuple[Piece, ...]]


class Wire(NamedTuple):
    """A provider's dialect, what puts a prompt into it and reads its whole answers, and the module over its SDK whose
    `connect(model, access)` is the provider."""

    dialect: str
    encode: Encode
    parse: Parse
    module: str


WIRES = {
    "anthropic": Wire("anthropic", anthropic.encode, anthropic.parse, "anthropic_api"),
    "openai": Wire("openai", openai.encode, openai.parse, "openai_api"),
    "openai_responses": Wire("openai", openai_responses.encode, openai_responses.parse, "openai_responses_api"),
    "gemini": Wire("gemini", gemini.encode, gemini.parse, "gemini_api"),
    "gemini_gca": Wire("gemini_gca", gemini.encode_gca, gemini.parse_gca, "gemini_gca_api"),
    "openrouter": Wire("openai", openai.encode, openai.parse, "openai_api"),
    "ollama": Wire("openai", openai.encode, openai.parse, "openai_api"),
    "vllm": Wire("openai", openai.encode, openai.parse, "openai_api"),
    "offline": Wire("openai", openai.encode, openai.parse, "offline"),
}
"""Provider -> its wire format. `google` is another name of `gemini`."""


def wire_of(provider: str, configured: Mapping[str, str] = {}) -> Wire:
    """What a provider speaks; `configured` are those that are not built in -> the built-in one that speaks the same.

    Raises CommandError for an unknown provider.
    """
    name = "gemini" if provider == "google" else provider
    wire = WIRES.get(name) or WIRES.get(configured.get(name, ""))
    if wire is None:
        raise CommandError(f"there is no provider '{provider[:40]}'; there is: {_all(configured)}")
    return wire


def check_model(name: str, configured: Mapping[str, str] = {}) -> None:
    """Raise CommandError unless `name` is `offline` or `provider/model` of a known provider."""
    provider, _, model = name.partition("/")
    if provider not in (*WIRES, "google", *configured) or (provider != "offline" and not model):
        there_is = _all(configured)
        raise CommandError(f"a model is 'offline' or PROVIDER/MODEL with one of {there_is}, not '{name[:60]}'")
    parse("model", name)


def _all(configured: Mapping[str, str]) -> str:
    return listing((*WIRES, *configured), 40)
