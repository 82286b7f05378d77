"""Convert stored sums of tokens into a model's estimated tokens [SPEC 5.5]."""

from math import ceil

from foldmark.request.standing import Standing
from foldmark.tokens.counting import BytesRuler, ruler


def whole(at: Standing, provider: str, model: str) -> int:
    """Return the estimated tokens of the whole context for this model, from the stored sums."""
    return counted(at, at.size.tokens, provider, model)


def counted(at: Standing, tokens: int, provider: str, model: str) -> int:
    """Return the estimated tokens for this model of stored tokens, which are bytes / 4."""
    measure = ruler(provider, model, at.config)
    return ceil(tokens * 4 / measure.ratio) if isinstance(measure, BytesRuler) else tokens
