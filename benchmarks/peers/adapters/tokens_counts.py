"""Tokens of texts by a tokenizer from PyPI; the suite names the one whose environment this is."""

from collections.abc import Callable, Sequence

from lines import serve


def tiktoken() -> Callable[[str], int]:
    """README, "encode": special tokens count as the text that they are here."""
    import tiktoken

    encoding = tiktoken.get_encoding("o200k_base")
    return lambda text: len(encoding.encode_ordinary(text))


def anthropic_tokenizer() -> Callable[[str], int]:
    """The function without the provider's service, which needs a key."""
    from anthropic_tokenizer import count_tokens

    return count_tokens


def ctok() -> Callable[[str], int]:
    """The family "v3", which is its default and that of the recorded models."""
    from ctok import token_count

    frame = token_count("")
    return lambda text: token_count(text) - frame


def google_genai() -> Callable[[str], int]:
    """The tokenizer of Gemini; its file is fetched at the first use."""
    from google.genai.local_tokenizer import LocalTokenizer

    tokenizer = LocalTokenizer(model_name="gemini-2.5-flash")
    return lambda text: tokenizer.count_tokens(text).total_tokens


def count(by: str, texts: Sequence[str]) -> list[int]:
    """Return the tokens of each text."""
    return list(
        map(
            {
                "tiktoken": tiktoken,
                "anthropic-tokenizer": anthropic_tokenizer,
                "ctok": ctok,
                "google-genai": google_genai,
            }[by](),
            texts,
        )
    )


serve(count=count)
