"""Reading the records of a rollout the way Codex itself writes them, without looking at all of a line [SPEC 8].

A long session has a hundred thousand lines, few of which change. What is found here is certain; for everything written
in another way, or torn, each of these says `UNSURE`, and the line is looked at member by member.
"""

import re
from typing import Final, Literal, NamedTuple

import msgspec
from msgspec import Raw, Struct

from foldmark.sessions.spans import Span
from foldmark.sessions.trim.codex_tools import ITEMS

UNSURE: Final = False
Unsure = Literal[False]

_HEAD = rb'\{"timestamp":"[^"\\]*",(?:"ordinal":\d+,)?"type":"'
_OUTPUT = re.compile(
    _HEAD + rb'response_item","payload":\{"type":"(?:function|custom_tool|local_shell)_call_output",'
    rb'(?:"id":"[^"\\]*",)?"call_id":"([^"\\]*)","output":'
)
_COUNTS = rb'\{(?:"[a-z_]+":\d+,?)*\}'
_TOKENS = re.compile(
    _HEAD + rb'event_msg","payload":\{"type":"token_count","info":'
    rb'\{"total_token_usage":' + _COUNTS + rb',"last_token_usage":(' + _COUNTS + rb")"
)

kind = re.compile(_HEAD + rb'(\w+)","payload":\{(?:"type":"(\w+)")?').match
"""A record's kind, and that of its payload, as groups; no match for a record that is written in another way."""


class _Payload(Struct, gc=False):
    type: str = ""
    call_id: str = ""
    name: str = ""
    namespace: str | None = None
    output: Raw = Raw(b"")


class _Record(Struct, gc=False):
    payload: _Payload


class _Item(Struct, gc=False):
    type: str
    id: str = ""
    source: str | None = None
    aggregated_output: Raw = Raw(b"")
    formatted_output: Raw = Raw(b"")
    stdout: Raw = Raw(b"")
    stderr: Raw = Raw(b"")


class _Event(Struct, gc=False):
    item: _Item


class _EventRecord(Struct, gc=False):
    payload: _Event


class _Anything(Struct, gc=False):
    pass


_decode = msgspec.json.Decoder(_Record).decode
_decode_event = msgspec.json.Decoder(_EventRecord).decode
_decode_anything = msgspec.json.Decoder(_Anything).decode
_NOT_THIS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Output(NamedTuple):
    """The output of the call `call_id`, and where in the line it begins, in bytes."""

    call_id: str
    value: bytes
    begin: int

    @property
    def span(self) -> Span:
        """Begin and end."""
        return self.begin, self.begin + len(self.value)


def output(raw: bytes) -> Output | Unsure:
    """What a record of an output has."""
    begin = _OUTPUT.match(raw)
    if begin is None:
        return UNSURE
    try:
        value = bytes(_decode(raw).payload.output)
    except _NOT_THIS:
        return UNSURE
    if not raw.startswith(value, begin.end()):  # a key that comes twice
        return UNSURE
    return Output(begin[1].decode("utf-8", "replace"), value, begin.end())


def call(raw: bytes) -> tuple[str, str] | Unsure:
    """Call id and tool of a record of a call."""
    try:
        payload = _decode(raw).payload
    except _NOT_THIS:
        return UNSURE
    return payload.call_id, f"{payload.namespace}__{payload.name}" if payload.namespace else payload.name


def without_tokens(raw: bytes) -> bytes | Unsure:
    """A record of a `token_count` with 0 for all of its `last_token_usage`."""
    found = _TOKENS.match(raw)
    if found is None:
        return UNSURE
    new = found[1].translate(None, b"0123456789").replace(b":", b":0")
    if new == found[1]:
        return raw
    try:
        _decode_anything(raw)
    except _NOT_THIS:  # torn behind it
        return raw
    return raw[: found.start(1)] + new + raw[found.end(1) :]


def call_id(raw: bytes) -> str:
    """The id of the call that an event is about; "" if it is not certain."""
    try:
        return _decode(raw).payload.call_id
    except _NOT_THIS:
        return ""


def copies(raw: bytes) -> list[Output] | Unsure:
    """What a record of an item repeats of an output."""
    try:
        item = _decode_event(raw).payload.item
    except _NOT_THIS:
        return UNSURE
    if item.type != "CommandExecution" or item.source == "user_shell":
        return UNSURE if item.type in ITEMS else []
    found = []
    for key, held in (
        (b'"aggregated_output":', item.aggregated_output),
        (b'"formatted_output":', item.formatted_output),
        (b'"stdout":', item.stdout),
        (b'"stderr":', item.stderr),
    ):
        if value := bytes(held):
            begin = raw.find(key) + len(key)
            if raw.count(key[:-1]) != 1 or not raw.startswith(value, begin):  # not the only one, or spaced
                return UNSURE
            found.append(Output(item.id, value, begin))
    return found
