"""The table of models, and the settings that override it."""

import subprocess
import sys
from typing import Any

import pytest
from msgspec.structs import replace

from foldmark.core.errors import CommandError
from foldmark.providers.registry import BUILT_IN
from foldmark.tokens.models import _table, model_of, reads


def test_the_table_has_the_published_figures() -> None:
    opus = model_of("anthropic", "claude-opus-4-6")
    assert (opus.window, opus.output, opus.input_price, opus.output_price) == (1_000_000, 128_000, 5.0, 25.0)
    assert (opus.cache_read, opus.cache_write, opus.cache_least, opus.caching) == (0.1, 1.25, 4096, "explicit")
    gpt = model_of("openai", "gpt-5")
    assert (gpt.window, gpt.input_price, gpt.cache_read, gpt.cache_least) == (272_000, 1.25, 0.1, 1024)
    assert (gpt.cache_step, gpt.caching) == (128, "automatic")
    assert model_of("gemini", "gemini-2.5-pro").cache_least == 2048


def test_the_seeds_figures_are_the_defaults() -> None:
    assert model_of("openai", "gpt-4").window == model_of("openai", "gpt-4-turbo").window == 128_000
    for provider, read in (("anthropic", 0.1), ("openai", 0.5), ("gemini", 0.25)):
        unknown = model_of(provider, "of-tomorrow")
        assert (unknown.window, unknown.cache_read) == (200_000, read)
        assert unknown.input_price is unknown.output_price is unknown.output is None
    assert model_of("nobody", "knows").window == 200_000
    assert model_of("nobody", "knows").caching == "none"


def test_an_unpublished_window_is_assumed() -> None:
    assert not model_of("openai", "gpt-5").assumed
    assert not model_of("openrouter", "openai/gpt-4o").assumed
    assert not model_of("offline", "offline").assumed
    for provider, name in (("openai", "of-tomorrow"), ("vllm", "x"), ("nobody", "knows"), ("openrouter", "meta/x")):
        assert model_of(provider, name).assumed
        assert model_of(provider, name, {f"{provider}/{name}": {"output": 5}}, [provider]).assumed
        assert not model_of(provider, name, {f"{provider}/{name}": {"window": 200_000}}, [provider]).assumed
    assert all("window" in model for about in _table().providers.values() for model in about.models.values())


def test_the_longest_name_wins_and_dates_belong_to_it() -> None:
    assert model_of("openai", "gpt-5-mini-2025-08-07") == model_of("openai", "gpt-5-mini")
    assert model_of("openai", "gpt-5-mini").input_price == 0.25
    assert model_of("openai", "gpt-5-2025-08-07").input_price == 1.25
    assert model_of("anthropic", "claude-sonnet-4-5-20250929").input_price == 3.0
    assert model_of("gemini", "gemini-2.5-flash-lite").input_price == 0.1


@pytest.mark.parametrize(
    ("provider", "name", "newest"),
    [
        ("openai", "gpt-6.2-sol", "gpt-6.1-sol"),
        ("openai_responses", "gpt-6.2-sol-2027-02-01", "gpt-6.1-sol"),
        ("openai", "gpt-5.9", "gpt-5.6"),
        ("anthropic", "claude-opus-5-9", "claude-opus-5-5"),
        ("anthropic", "claude-sonnet-5-12@20270101", "claude-sonnet-5-5"),
        ("openrouter", "anthropic/claude-opus-4.9", "claude-opus-5-5"),
        ("gemini", "gemini-4-flash", "gemini-3.8-flash"),
    ],
)
def test_a_new_model_of_a_known_family_is_guessed_from_the_newest_one(provider: str, name: str, newest: str) -> None:
    found = model_of(provider, name)
    assert (found.assumed, found.guessed_from) == (True, newest)
    like = model_of(provider, f"anthropic/{newest}" if provider == "openrouter" else newest)
    assert found == replace(like, assumed=True, guessed_from=newest, source=f"a guess: the figures of {newest}")
    set_here = model_of(provider, name, {f"{provider}/{name}": {"window": 5000}})
    assert (set_here.window, set_here.assumed, set_here.guessed_from) == (5000, False, "")


@pytest.mark.parametrize(
    ("provider", "name"),
    [("anthropic", "claude-3-5-sonnet-20241022"), ("openai", "gpt-3.5-turbo"), ("openai", "gpt-6.2-nova")],
)
def test_other_unknown_models_are_not_guessed(provider: str, name: str) -> None:
    found = model_of(provider, name)
    assert (found.window, found.input_price, found.assumed, found.guessed_from) == (200_000, None, True, "")


def test_a_known_version_in_another_notation_is_known() -> None:
    found = model_of("openrouter", "anthropic/claude-opus-4.8")
    assert found == model_of("openrouter", "anthropic/claude-opus-4-8")
    assert not found.assumed


def test_resellers_have_the_figures_of_the_makers() -> None:
    assert model_of("openai_responses", "gpt-5") == model_of("openai", "gpt-5")
    assert model_of("google", "gemini-2.5-pro") == model_of("gemini", "gemini-2.5-pro")
    assert model_of("gemini_gca", "gemini-2.5-pro").input_price is None
    routed = model_of("openrouter", "openai/gpt-4o")
    assert (routed.window, routed.input_price) == (128_000, None)
    assert model_of("openrouter", "somebody/model").window == 200_000


def test_every_provider_is_in_the_table_and_every_entry_names_its_source() -> None:
    assert set(BUILT_IN) == set(_table().providers)
    for provider, about in _table().providers.items():
        for name in ("", *about.models):
            found = model_of(provider, name)
            assert found.source, (provider, name)
            assert found.output is None or found.output <= 1_000_000
            assert found.cache_read is None or found.cache_read <= 1 <= (found.cache_write or 1)


def test_the_settings_override_the_table() -> None:
    overrides = {"anthropic/claude-x": {"window": 500_000, "input_price": 2}, "anthropic": {"cache_read": 0.2}}
    found = model_of("anthropic", "claude-x", overrides)
    assert (found.window, found.input_price, found.cache_read, found.caching) == (500_000, 2.0, 0.2, "explicit")
    assert found.source == "settings"
    assert model_of("anthropic", "claude-x-20270101", overrides).window == 500_000
    assert model_of("anthropic", "claude-y", overrides).window == 200_000
    assert model_of("openai", "gpt-5", overrides) == model_of("openai", "gpt-5")
    assert model_of("google", "gemini-x", {"google/gemini-x": {"window": 7}}).window == 7


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"anthropic/x": {"windw": 5}}, "models.'anthropic/x' has no 'windw'; available: window, output, input_price"),
        ({"anthropic/x": {"window": "5"}}, "models.'anthropic/x': window must be a whole number of tokens, not '5'"),
        ({"anthropic/x": {"window": True}}, "window must be a whole number of tokens, not True"),
        ({"anthropic/x": {"window": 0}}, "window must be a whole number of tokens, not 0"),
        ({"anthropic/x": {"output_price": -1}}, "output_price must be dollars per million tokens, not -1"),
        ({"anthropic/x": {"caching": "yes"}}, "caching must be 'explicit', 'automatic' or 'none', not 'yes'"),
        ({"antropic/x": {"window": 5}}, "there is no provider 'antropic'; available: anthropic, openai"),
        ({"anthropic/x": 5}, "models.'anthropic/x' must be a table, such as {window = 500000}, not 5"),
    ],
)
def test_wrong_settings_are_named(overrides: Any, said: Any) -> None:
    with pytest.raises(CommandError) as raised:
        model_of("openai", "gpt-5", overrides)
    assert said in str(raised.value)


def test_the_table_is_read_on_first_use() -> None:
    code = "import sys, foldmark; print('foldmark.tokens.models' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_the_table_says_which_models_bind_and_read_thinking() -> None:
    fable, mythos, fable_2, mythos_2 = (
        f"claude-{name}" for name in ("fable-5-1", "mythos-5-1", "fable-5-2", "mythos-5-2")
    )
    opus, sonnet, haiku = (f"claude-{name}-5-5" for name in ("opus", "sonnet", "haiku"))
    old, older, odd = "claude-opus-5", "claude-haiku-4-5-20251001", "claude-opus-7"
    binding = (fable, mythos, fable_2, mythos_2, opus, sonnet, haiku)
    models = _table().providers["anthropic"].models
    assert {name for name in models if model_of("anthropic", name).binds} == set(binding)
    read = {
        fable: {mythos, opus, old},
        mythos: {fable, opus, old},
        fable_2: {mythos_2, old},
        mythos_2: {fable_2, old},
        opus: {old},
        sonnet: set(),
        haiku: {old},
        old: set(),
    }
    for model, makers in read.items():
        known = {maker for maker in (*binding, old, older, odd) if reads("anthropic", model, maker)}
        assert known == makers | {model, older, odd}, model
    assert reads("anthropic", odd, fable)
    assert reads("somebody", "a", "b")
    assert model_of("anthropic", odd).binds  # as the newest one of its family
