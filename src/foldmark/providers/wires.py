"""Which dialect each provider speaks, and what puts a prompt into it. No SDK is needed for that."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from foldmark.core.answer import Piece
from foldmark.core.config import parse
from foldmark.core.errors import CommandError
from foldmark.core.prompt import Prompt
from foldmark.core.request import Options, ToolSpec
from foldmark.core.wording import listing
from foldmark.providers import anthropic, anthropic_binding, gemini, openai, openai_responses

Encode = Callable[[str, Prompt, Sequence[ToolSpec], Options], dict[str, Any]]

Parse = Callable[[dict[str, Any]], tuple[Piece, ...]]

Bind = Callable[[Callable[[], Mapping[str, Any]], Sequence[Piece]], tuple[Piece, ...]]

Without = Callable[[Mapping[str, Any]], dict[str, Any]]

Thinking = Callable[[Prompt, Mapping[str, Any]], dict[str, str]]

_STREAM = 'these bytes, with "stream":true as the last field'
_KEYED = ', and "prompt_cache_key", the agent\'s id, behind them if it went to OpenAI itself'
_CHAT = f'these bytes, with "stream":true and "stream_options":{{"include_usage":true}} as the last fields{_KEYED}'
_KEPT = f"{_STREAM}{_KEYED}"
_AGAIN = "the same JSON as the SDK serializes it once more: white space and escapes differ"
_GCA = "the same JSON with the account's project and a prompt id, as the SDK serializes it once more"


class Wire(NamedTuple):
    """A provider's dialect, what puts a prompt into it and reads its whole answers, the module over its SDK whose
    `connect(model, access)` is the provider, and in words how what goes over the wire differs from `Request.bytes`.
    `reads` is whose form of a summary it takes as its own (`core.native`), empty for none. Where thinking may be bound
    to what stands in front of it, `bind` adds that to the answer to a body, `thinking` says which blocks a body
    holds, each with the model that made it, and `without_thinking` is a body without them."""

    dialect: str
    encode: Encode
    parse: Parse
    module: str
    on_the_wire: str
    reads: str = ""
    bind: Bind = lambda asked, pieces: tuple(pieces)
    thinking: Thinking = lambda prompt, body: {}
    without_thinking: Without = dict


WIRES = {
    "anthropic": Wire(
        "anthropic",
        anthropic.encode,
        anthropic.parse,
        "anthropic_api",
        _STREAM,
        "anthropic",
        anthropic_binding.bind,
        anthropic_binding.thinking,
        anthropic_binding.without,
    ),
    "openai": Wire("openai", openai.encode, openai.parse, "openai_api", _CHAT),
    "openai_responses": Wire(
        "openai", openai_responses.encode, openai_responses.parse, "openai_responses_api", _KEPT, "openai_responses"
    ),
    "gemini": Wire("gemini", gemini.encode, gemini.parse, "gemini_api", _AGAIN),
    "gemini_gca": Wire("gemini_gca", gemini.encode_gca, gemini.parse_gca, "gemini_gca_api", _GCA),
    "openrouter": Wire("openai", openai.encode, openai.parse, "openai_api", _CHAT),
    "ollama": Wire("openai", openai.encode, openai.parse, "openai_api", _CHAT),
    "vllm": Wire("openai", openai.encode, openai.parse, "openai_api", _CHAT),
    "offline": Wire(
        "openai", openai.encode, openai.parse, "offline", "nothing: the built-in model reads it in this process"
    ),
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


def speaks(provider: str, configured: Mapping[str, str] = {}) -> str:
    """The built-in provider whose format a provider's requests have. Raises CommandError for an unknown one."""
    wire_of(provider, configured)
    name = "gemini" if provider == "google" else provider
    return name if name in WIRES else configured[name]


def check_model(name: str, configured: Mapping[str, str] = {}) -> None:
    """Raise CommandError unless `name` is `offline` or `provider/model` of a known provider."""
    provider, _, model = name.partition("/")
    if provider not in (*WIRES, "google", *configured) or (provider != "offline" and not model):
        there_is = _all(configured)
        raise CommandError(f"a model is 'offline' or PROVIDER/MODEL with one of {there_is}, not '{name[:60]}'")
    parse("model", name)


def _all(configured: Mapping[str, str]) -> str:
    return listing((*WIRES, *configured), 40)
