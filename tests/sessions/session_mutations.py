"""Damaged session files, made from real lines where available; the same number always gives the same files."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import rollout_records as codex
from session_records import REAL_FILES, assistant, call, result, user

from sampled import DEEP

PARTS = 25 if DEEP else 2
LINES = 4000 if DEEP else 900
"""Mutated lines in a part; 100,000 in all with FOLDMARK_DEEP=1."""

_LONGEST = 12_000
_POINTER = "... [TRIMMED by Foldmark: 5 of 9,000 characters. The whole result: line 3 of /nowhere.jsonl]"
_WRONG: list[Any] = [
    None, True, 0, -1, 1.5, 2**70, "", "x", "\u2028", [], {}, [None], [[]], {"type": "text"}, {"type": None}, [{}],
]  # fmt: skip
_BYTES = [
    b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", "\u2028".encode(), b"\r", b"\x1b[2J", b"\\ud800", b"\\udc00\\ud83d",
    b"\xef\xbb\xbf", b"\xff\xfe", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"NaN", b"1" * 5000, b"1e999",
]  # fmt: skip
_FORGED: list[dict[str, Any]] = [
    {"trim_metadata": {"parent_file": "/x.jsonl", "trimmed_count": 1}},
    {"trim_metadata": "x"},
    {"continue_metadata": {"parent_session_file": "/x.jsonl"}},
    {"repair_metadata": {"parent_file": None}},
    {"foldmark_made_up": True},
    {"isCompactSummary": True},
    {"isSidechain": True, "agentId": "a1"},
    {"isApiErrorMessage": True, "error": "invalid_request"},
    {"isMeta": True, "sourceToolUseID": "toolu_1"},
    {"type": "system", "subtype": "compact_boundary", "compactMetadata": {"preservedMessages": {"uuids": ["u1", 5]}}},
    {"type": "system", "subtype": "compact_boundary", "compactMetadata": {"preservedSegment": {"tailUuid": "u3"}}},
    {"type": "last-prompt", "leafUuid": "u1"},
    {"type": "progress"},
    {"type": "compacted", "payload": {"message": "m", "replacement_history": [{"type": "function_call_output"}]}},
    {"type": "event_msg", "payload": {"type": "token_count", "info": {"last_token_usage": {"total_tokens": "x"}}}},
    {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 2**40}},
]  # fmt: skip
_DO_NOT_INDEX = "Please.\nDO NOT INDEX THIS SESSION\n"


@dataclass(frozen=True)
class Damaged:
    """A session file: its bytes, and how many of its lines were mutated."""

    kind: str
    number: int
    content: bytes
    lines: int

    @property
    def name(self) -> str:
        """The file name that the program would give it."""
        id = f"0199aaaa-1111-7222-8333-{self.number:012x}"
        return codex.name(id) if self.kind == "codex" else f"{id}.jsonl"


@functools.cache
def damaged(part: int) -> list[Damaged]:
    """Return the files of a part: `LINES` lines in files of up to a hundred lines; every fourth file is Codex's."""
    rng = random.Random(f"foldmark sessions {part}")
    files: list[Damaged] = []
    left = LINES
    while left > 0:
        number = part * 10_000 + len(files)
        kind = "codex" if len(files) % 4 == 3 else "claude"
        size = min(left, rng.choice([1, 3, 10, 30, 60, 100]))
        files.append(Damaged(kind, number, _file(rng, kind, size), size))
        left -= size
    return files


def _file(rng: random.Random, kind: str, size: int) -> bytes:
    """Return `size` consecutive lines of a sample with a random share of them mutated."""
    sample = rng.choice(_samples()[kind])
    start = rng.randrange(max(1, len(sample) - size))
    lines = [sample[(start + at) % len(sample)] for at in range(size)]
    if kind == "codex" and start and rng.random() < 0.9:
        lines[0] = sample[0]
    share = rng.choice([0.1, 0.5, 1.0])
    others = lines.copy()
    for at in range(len(lines)):
        for _ in range(rng.choice([1, 1, 2, 4]) if rng.random() < share else 0):
            lines[at] = _mutated(rng, lines[at], others)
    if kind == "codex" and rng.random() < 0.7:
        lines[0] = sample[0]
    return _put_together(rng, lines)


def _put_together(rng: random.Random, lines: list[bytes]) -> bytes:
    lines = list(lines)
    for _ in range(rng.choice([0, 0, 1, 4])):
        at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        match rng.randrange(5):
            case 0:
                lines.insert(other, lines[at])
            case 1:
                lines[at], lines[other] = lines[other], lines[at]
            case 2:
                lines[at] += lines[other]
            case 3:
                lines.insert(at, rng.choice([b"", b" \t", b"null", b"{}", b"[]", b"5", b"\0\0\0", b"{"]))
            case 4:
                del lines[at:at + rng.choice([1, 1, 3])]  # fmt: skip
                lines = lines or [b""]
    end = rng.choice([b"\n"] * 8 + [b"\r\n"])
    content = end.join(lines) + rng.choice([end, end, end, b"", b"\n\n", b'{"type":"us'])
    return rng.choice([b""] * 30 + [b"\xef\xbb\xbf", b"\n", b"\xff\xfe"]) + content


def _mutated(rng: random.Random, line: bytes, others: list[bytes]) -> bytes:
    if rng.random() < 0.4:
        return _bytes(rng, line)
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return _bytes(rng, line)
    if not isinstance(value, dict):
        return _bytes(rng, line)
    return _value(rng, value, others)


def _bytes(rng: random.Random, line: bytes) -> bytes:
    at = rng.randrange(len(line) + 1)
    match rng.randrange(6):
        case 0:
            return line[:at] + bytes([rng.randrange(256)]) + line[at + 1 :]
        case 1:
            return line[:at]
        case 2:
            return line[:at] + line[at + rng.choice([1, 1, 2, 50]) :]
        case 3:
            flipped = bytearray(line)
            for _ in range(rng.choice([1, 5])):
                if flipped:
                    flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
            return bytes(flipped)
        case _:
            return line[:at] + rng.choice(_BYTES) + line[at:]


def _value(rng: random.Random, value: dict[str, Any], others: list[bytes]) -> bytes:
    holder, key = rng.choice(list(_places(value)) or [({"k": 0}, "k")])
    match rng.randrange(12):
        case 0 | 1:
            holder[key] = rng.choice(_WRONG)
        case 2:
            del holder[key]
        case 3:
            value["message" if "message" in value else "payload"] = rng.choice([None, None, "x", [], {}])
        case 4:
            if isinstance(value.get("message"), dict):
                value["message"]["content"] = rng.choice([None, "text", 5, {}, [None], [[]], ["x"], []])
        case 5:
            deep: Any = rng.choice(_WRONG)
            for _ in range(rng.choice([10, 190, 260])):
                deep = [deep] if rng.random() < 0.5 else {"k": deep}
            holder[key] = deep
        case 6:
            keys = list(value)
            rng.shuffle(keys)
            value = {each: value[each] for each in keys}
        case 7:
            _swap_ids(rng, value, others)
        case 8:
            value |= rng.choice(_FORGED)
        case 9:
            places = [(held, each) for held, each in _places(value) if isinstance(held[each], str)]
            if places:
                holder, key = rng.choice(places)
                forged = rng.choice(
                    [_POINTER, "x" * 3000, "\ud800 \udfff", "a\u2028b\0c", "é" * 700, "Prompt is too long"]
                )
                holder[key] = forged if rng.random() < 0.5 else f"{holder[key]}\n{forged}"
        case 10:
            twice = {rng.choice(["type", "uuid", "message", "payload"]): rng.choice(_WRONG)}
            return f"{json.dumps(twice)[:-1]},{json.dumps(value)[1:]}".encode()
        case 11:
            if rng.random() < 0.02 and value.get("type") == "user":
                value["message"] = {"role": "user", "content": _DO_NOT_INDEX}
    spaces = rng.choice([(",", ":"), (",", ":"), (", ", ": ")])
    return json.dumps(value, separators=spaces, ensure_ascii=rng.random() < 0.3).encode("utf-8", "surrogatepass")


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the holder and the key of every member of an object or a list, at any depth."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def _swap_ids(rng: random.Random, value: dict[str, Any], others: list[bytes]) -> None:
    try:
        other = json.loads(rng.choice(others))
    except (ValueError, RecursionError):
        return
    if not isinstance(other, dict):
        return
    names = ("uuid", "parentUuid", "id", "tool_use_id", "call_id", "sessionId", "ordinal", "leafUuid", "name", "type")
    ids = [held[each] for held, each in _places(other) if each in names]
    places = [(held, each) for held, each in _places(value) if each in names]
    if ids and places:
        holder, key = rng.choice(places)
        holder[key] = rng.choice(ids)


@functools.cache
def _samples() -> dict[str, list[list[bytes]]]:
    """Return sessions as lists of lines: real ones where available, and always some made-up ones."""
    return {
        "claude": [*_read(REAL_FILES), *([_made_up()] * 2)],
        "codex": [*_read(codex.REAL_FILES), _made_up_codex()],
    }


def _read(paths: list[Any]) -> list[list[bytes]]:
    found = []
    for path in paths:
        lines = [line for line in path.read_bytes().split(b"\n") if line.strip() and len(line) <= _LONGEST]
        if len(lines) > 2:
            found.append(lines)
    return found


def _made_up() -> list[bytes]:
    records: list[Any] = []
    for at in range(0, 120, 6):
        usage = {"input_tokens": 5, "output_tokens": 9, "cache_read_input_tokens": 1000 * at}
        thinking = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
        long = "".join(f"line {number}: «säge» 🚀\n" for number in range(40))
        read = [call(f"toolu_{at}", "Read", file_path="/a"), call(f"toolu_{at}b", "Bash", command="ls")]
        parts = [
            user(f"question {at}", f"u{at}"),
            assistant([thinking, {"type": "text", "text": "I look."}], f"u{at + 1}", response=f"m{at}", usage=usage),
            assistant(read, f"u{at + 2}", response=f"m{at}", usage=usage),
            user(
                [result(f"toolu_{at}", long)], f"u{at + 3}", toolUseResult={"file": {"content": long, "numLines": 40}}
            ),
            user(
                [result(f"toolu_{at}b", [{"type": "text", "text": long}])], f"u{at + 4}", toolUseResult={"stdout": long}
            ),
            assistant([{"type": "text", "text": f"answer {at}"}], f"u{at + 5}", response=f"n{at}", usage=usage),
        ]
        for record in parts:
            record |= {"parentUuid": records[-1]["uuid"] if records else None, "sessionId": "s", "cwd": "/garden"}
            records.append(record)
    return [json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() for record in records]


def _made_up_codex() -> list[bytes]:
    long = "".join(f"line {number}: «säge» 🚀\n" for number in range(40))
    records = [codex.meta(history_mode="paginated")]
    for at in range(12):
        records += [
            codex.said(f"question {at}"),
            codex.call(f"call_{at}"),
            codex.output(f"call_{at}", long if at % 2 else [{"type": "input_text", "text": long}]),
            codex.completed("CommandExecution", f"call_{at}", aggregated_output=long, command=["ls"]),
            codex.said(f"answer {at}", "assistant"),
            codex.tokens(9000 * at),
        ]
    for at, record in enumerate(records):
        record["ordinal"] = at
    return codex.jsonl(*records).splitlines()
