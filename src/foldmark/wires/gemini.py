"""Parts of Gemini's contents: what they say, and how they are made [SPEC 5.7, 8]. Pure.

The gateway and Foldmark's own requests ask here, so that a part means the same to both.

Read: a signed part keeps its signature, because the API wants it back. Thoughts, empty texts, and pictures that a model
drew say nothing. Any other part of an answer, such as code that Google ran, is kept whole in a block, and so is what a
user attaches in a form that only Gemini reads: audio, video, files at an address.

Made: images and documents only of the types that a model accepts; a text replaces any other, because the API would
refuse the whole request. Sources: ai.google.dev, thought-signatures, function-calling and code-execution.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from foldmark.core.assembly import wire
from foldmark.core.assembly.media import PDF, Document, Image, Medium, media_of
from foldmark.core.events import Event
from foldmark.core.request import block_in, block_position, carry
from foldmark.wires.lenient_json import as_object, as_text, objects_in
from foldmark.wires.parts import CallMessage, Data, ResultMessage, TextMessage

CALL, RESPONSE, INLINE = "functionCall", "functionResponse", "inlineData"
READER = "gemini"

UNSIGNED = "skip_thought_signature_validator"
"""The signature that Google documents for a call without a thought signature, such as one from another model; Gemini 3
requires a signature."""

LATEST = (3, 8)
"""The version assumed for a model whose version is unknown."""

MOST_PAGES = 1000
"""Maximum number of pages of a document."""

_SIGNATURE = "thoughtSignature"
_SAID = {"text", "thought", _SIGNATURE}
_PICTURES = {INLINE, "fileData"}
"""Parts that are not sent again: images drawn by a model are not part of a context."""

_IMAGES = {"png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "webp": "image/webp"}
"""The image types that Gemini accepts, by the extension of an address; GIF is not among them."""

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")


# Read


def held(part: Mapping[str, Any], kind: str) -> Data | None:
    """Return the `CALL` or the `RESPONSE` in a part; None if it has none."""
    found = part.get(kind)
    return found if isinstance(found, dict) else None


def is_thinking(part: Mapping[str, Any]) -> bool:
    """Return True for a thought."""
    return part.get("thought") is True


def answered(part: Mapping[str, Any], call_id: str) -> CallMessage | TextMessage | None:
    """Return what a part of an answer says; None for a thought, an empty text and what is not sent again. `call_id` is
    the id of its call."""
    signature, text = signature_of(part), part.get("text")
    if (call := held(part, CALL)) is not None:
        args, signed_by = call.get("args"), {"thought_signature": signature} if signature else None
        return CallMessage(call_id, as_text(call.get("name")), {} if args is None else args, signed_by)
    if isinstance(text, str):
        kept = {"blocks": [signed(part)]} if signature else None
        return TextMessage("assistant", text, kept) if text and not is_thinking(part) else None
    return TextMessage("assistant", "", {"blocks": [_carried(part)]}) if _is_other(part) else None


def given(part: Mapping[str, Any], call_id: str) -> ResultMessage | TextMessage | None:
    """Return what a part of a user's content says; None for an empty one. `call_id` is the id of the call that it
    answers."""
    text = part.get("text")
    if (response := held(part, RESPONSE)) is not None:
        return _result(response, call_id)
    if isinstance(text, str):
        return TextMessage("user", text)
    return TextMessage("user", "", {"blocks": [_attached(part)]}) if part else None


def signature_of(part: Mapping[str, Any]) -> str | None:
    """Return the thought signature of a part; None without one, and for the one that replaces it."""
    found = as_text(part.get(_SIGNATURE))
    return found if _BASE64.fullmatch(found) and found != UNSIGNED else None


def signed(part: Mapping[str, Any]) -> Data | None:
    """Return a signed part without its text, unless it is a thought; None for a part without a signature."""
    text, signature = part.get("text"), signature_of(part)
    if not isinstance(text, str) or signature is None:
        return None
    return {**({"text": text, "thought": True} if is_thinking(part) else {"text": ""}), _SIGNATURE: signature}


def meaning(parts: Iterable[Mapping[str, Any]]) -> tuple[str, list[list[Any]]]:
    """Return the text and the calls of an answer, without thoughts, signatures and ids, which a client may invent."""
    shown = [part for part in parts if not is_thinking(part)]
    calls = [[call.get("name"), call.get("args") or {}] for part in shown if (call := held(part, CALL)) is not None]
    return "".join(as_text(part.get("text")) for part in shown), calls


def _result(response: Data, call_id: str) -> ResultMessage:
    said = response.get("response")
    held = as_object(said)
    text = held.get("error", held.get("output")) if len(held) == 1 else None
    if not isinstance(text, str):
        text = msgspec.json.encode(said).decode()
    blocks = [_attached(part) for part in objects_in(response.get("parts"))]
    about = {"name": as_text(response.get("name")), **({"blocks": blocks} if blocks else {})}
    return ResultMessage(call_id, text, list(held) == ["error"], about)


def _attached(part: Mapping[str, Any]) -> Data:
    """Return the block of an image or a document that every dialect can send; any other part is kept whole."""
    inline = as_object(part.get(INLINE))
    source = {"type": "base64", "media_type": inline.get("mimeType"), "data": inline.get("data")}
    block = {"type": "document" if source["media_type"] == PDF else "image", "source": source}
    # A name is kept, since the response may refer to it.
    return block if "displayName" not in inline and media_of({"blocks": [block]})[0] else _carried(part)


def _carried(part: Mapping[str, Any]) -> Data:
    return carry(dict(part), 0, READER).block


def _is_other(part: Mapping[str, Any]) -> bool:
    """Return True if a part is of an unknown kind, such as code that the API ran, and can be sent again."""
    others = part.keys() - _SAID
    if not others or others & _PICTURES or not all(isinstance(part[name], dict) for name in others) or "text" in part:
        return False
    is_signed = part.get(_SIGNATURE, "") == "" or signature_of(part) is not None
    return is_signed and isinstance(part.get("thought", False), bool)


# Made


def text_parts(text: str) -> list[Data]:
    """Return a text as parts; none if it is empty."""
    return [{"text": text}] if text else []


def answer_parts(text: str, kept: Sequence[Data]) -> list[Data]:
    """Return the text of an answer and what is `kept` of it as parts, each in its place."""
    signatures = [part for block in kept if (part := signed(block))]
    parts = [part for part in signatures if is_thinking(part)]
    done = 0
    for block in kept:
        if part := block_in(block, READER):
            end = block_position(block, done, text)
            parts += [*text_parts(text[done:end]), part]
            done = end
    return [*parts, *text_parts(text[done:]), *(part for part in signatures if not is_thinking(part))]


def call_part(call_id: str | None, name: str, arguments: str, signature: Any, *, must_sign: bool) -> Data:
    """Return the part of a call; `arguments` are the JSON of an object."""
    own = {} if call_id is None else {"id": call_id}
    part: Data = {CALL: {**own, "name": name, "args": msgspec.json.decode(arguments)}}
    found = signature_of({_SIGNATURE: signature}) or (UNSIGNED if must_sign else None)
    return part if found is None else {**part, _SIGNATURE: found}


def response_part(call_id: str | None, name: str, text: str, failed: bool, inside: Sequence[Data] = ()) -> Data:
    """Return the part of a result; `inside` are the parts of its images and documents."""
    response: Data = {} if call_id is None else {"id": call_id}
    response |= {"name": name, "response": {"error" if failed else "output": text}}
    return {RESPONSE: {**response, "parts": list(inside)} if inside else response}


def media_parts(media: Iterable[Medium], version: tuple[int, int]) -> list[Data]:
    """Return images and documents as a model of this version accepts them."""
    found: list[Data] = []
    for each in media:
        if not isinstance(each, Document):
            found.append(_image(each, version))
        elif each.pages > MOST_PAGES or version < (1, 5):
            found.append({"text": each.note})
        else:
            found.append({INLINE: {"mimeType": PDF, "data": each.data}})
    return found


def _image(image: Image, version: tuple[int, int]) -> Data:
    """Return the part of an image, or a text instead if the API would refuse the whole request because of it. The API
    fetches https addresses for Gemini 2.5 and later, and needs the type of the content."""
    if not image.url:
        if image.media in _IMAGES.values():
            return {INLINE: {"mimeType": image.media, "data": image.data}}
        return {"text": f"[An image of type {image.media} is not shown: Gemini does not take it.]"}
    media = _IMAGES.get(urlsplit(image.url).path.rpartition(".")[2].lower())
    if media and version >= (2, 5):
        return {"fileData": {"mimeType": media, "fileUri": image.url}}
    return {"text": f"[Image: {image.url}]"}


def parts_for(event: Event, *, first: bool) -> list[Data]:
    """Return a recorded message as parts, without its thinking; `first` is True for the first call of a content, which
    must be signed."""
    about = event.data or {}
    name, call_id = as_text(about.get("name")), None if "#" in (event.call_id or "#") else event.call_id
    if event.kind == "tool_call":
        signature, arguments = about.get("thought_signature"), wire.arguments(event.content)
        return [call_part(call_id, name, arguments, signature, must_sign=first)]
    shown: list[Data] = []
    for block in objects_in(about.get("blocks")):
        carried = block_in(block, READER)
        media = [] if carried else media_parts(media_of({"blocks": [block]})[0], LATEST)
        # A response holds nothing else.
        shown += [carried] if carried else [part for part in media if INLINE in part or event.kind != "tool_result"]
    if event.kind == "tool_result":
        return [response_part(call_id, name, event.content, about.get("is_error") is True, shown)]
    return [*shown, *(text_parts(event.content) if event.content.strip() else [])]
