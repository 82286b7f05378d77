"""How many tokens stored sums are as requests to a model are counted [SPEC 5.5]."""

from math import ceil

from foldmark.request.standing import Standing
from foldmark.tokens.counting import BytesRuler, ruler


def whole(at: Standing, provider: str, model: str) -> int:
    """Return the tokens of the whole context as requests to this model are counted, from the sums that were stored."""
    return counted(at, at.size.tokens, provider, model)


def counted(at: Standing, tokens: int, provider: str, model: str) -> int:
    """Return stored tokens, which are bytes / 4, as requests to this model are counted."""
    measure = ruler(provider, model, at.config)
    return ceil(tokens * 4 / measure.ratio) if isinstance(measure, BytesRuler) else tokens
