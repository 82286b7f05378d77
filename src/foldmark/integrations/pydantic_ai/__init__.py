"""Foldmark inside Pydantic AI: `FoldmarkHistory` is the history of an agent (docs/reference/pydantic-ai.md)."""

try:
    import pydantic_ai  # noqa: F401
except ModuleNotFoundError:
    from foldmark.installation import installs

    raise ModuleNotFoundError(
        f"foldmark.integrations.pydantic_ai needs Pydantic AI, which is not installed; {installs('pydantic-ai')}"
    ) from None

from foldmark.integrations.pydantic_ai.history import FoldmarkHistory

__all__ = ["FoldmarkHistory"]
