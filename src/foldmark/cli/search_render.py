"""How what a search found is shown, and what is read around it."""

from collections.abc import Mapping, Sequence

from foldmark.core.search import PROGRAMS, Excerpt, PassageMessage, SearchResult, excerpt_text
from foldmark.core.wording import one_line, title
from foldmark.rendering import marked
from foldmark.sessions.archive.reading import Passage, excerpt

NEIGHBOUR = 2000
"""Characters that are shown of a message next to the one that was asked for."""

LINE = 120
"""Characters of a neighbour that has one line."""


def hits_text(
    hits: Sequence[SearchResult],
    *,
    bold: bool,
    filtered: bool = False,
    beside: Mapping[SearchResult, Sequence[PassageMessage]] = {},
) -> str:
    """Hits by session or conversation, that with the best hit first; `filtered`: more than words was asked for,
    `beside`: neighbours of each hit, to be shown with it."""
    if not hits:
        return f"Nothing was said with these words{', as far as the filters let through' if filtered else ''}."
    groups: dict[tuple[str, str], list[SearchResult]] = {}
    for hit in hits:
        groups.setdefault((hit.source, hit.id), []).append(hit)
    return "\n\n".join("\n".join(_group(group, bold, beside)) for group in groups.values())


def passage_text(passage: Passage | Excerpt) -> str:
    """What was said, message by message; neighbours of the one that was asked for are cut."""
    shown = excerpt(passage) if isinstance(passage, Passage) else passage
    return excerpt_text(shown, None, NEIGHBOUR, "foldmark search --read ")


def place(hit: SearchResult) -> str | None:
    """What `--read` takes to print a hit whole; None for a memo."""
    if hit.event_id is not None:
        return f"{hit.name}:{hit.event_id}"
    return f"{hit.file}:{hit.line}" if hit.file else None


def _group(
    hits: Sequence[SearchResult], bold: bool, beside: Mapping[SearchResult, Sequence[PassageMessage]]
) -> list[str]:
    first = hits[0]
    date = (first.at or "no date")[:10]
    if first.source == "memo":
        lines = [f"{date}  memo {first.id}{f' [{one_line(first.name)}]' if first.name else ''}"]
    elif first.source == "conversation":
        lines = [f"{date}  conversation '{one_line(first.name)}', agent {first.id[:8]}"]
    else:
        lines = [
            f"{date}  {one_line(first.name)}  {PROGRAMS.get(first.source, first.source)} session {one_line(first.id)}"
        ]
    for hit in hits:
        who = f"{hit.role} {hit.tool}" if hit.tool else hit.role
        lines.append(f"  {one_line(who)}: {marked(hit.snippet, hit.highlights, bold=bold)}")
        if (at := place(hit)) is not None:
            where = "" if hit.visible is None else f"  {'' if hit.visible else 'not '}in the context"
            lines.append(f"    {one_line(at)}{where}")
        lines += [f"      {one_line(each.place)}, {each.who}: {title(each.text, LINE)}" for each in beside.get(hit, ())]
    return lines
