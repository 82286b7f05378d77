"""Strict validators of requests, written from the providers' documented rules.

Each takes the JSON body of a request and returns its violations as `path: what is wrong`, an empty list if the real
provider would accept it. They share no code with Foldmark, so that an encoder cannot be wrong in the same way. The
rules and their sources are in `rules_*.py`; the header of each file says where they are stricter than the provider.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rules_anthropic import anthropic
from rules_gemini import gemini, gemini_gca
from rules_openai import openai
from rules_openai_responses import openai_responses

__all__ = ["VALIDATORS", "anthropic", "gemini", "gemini_gca", "openai", "openai_responses"]

VALIDATORS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "anthropic": anthropic,
    "openai": openai,
    "openai_responses": openai_responses,
    "gemini": gemini,
    "gemini_gca": gemini_gca,
}
