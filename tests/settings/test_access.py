"""Access to providers: built-in and configured keys and URLs [SPEC 10]. No key is shown or sent to the wrong server."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from itertools import product
from pathlib import Path

import pytest
from plan import Reply, Say
from server import Loopback
from settings_place import Place
from wire_anthropic import AnthropicWire
from wire_gemini import GeminiWire
from wire_openai import OpenAIWire

import foldmark
from foldmark import CommandError
from foldmark.core.errors import ProviderError
from foldmark.installation import installs
from foldmark.providers.registry import BUILT_IN, NO_KEY, SDKS, check_model, dialect_of
from foldmark.sending.models import provider
from foldmark.settings.access import access, obstacle, ollama_address
from foldmark.settings.given import Server, Settings

TEAM = '[providers.team]\nbase_url = "https://models.example.com/v1/"\n'
BAD_NAME = "invalid name {}: a provider's name has letters, digits, - and _, and is not offline or google"


def reached(name: str, environment: dict[str, str], settings: Settings) -> tuple[str | None, ...]:
    found = access(name, environment, settings)
    return found.key, found.base_url, found.project


@pytest.mark.parametrize(
    ("name", "environment", "expected"),
    [
        ("anthropic", {"ANTHROPIC_API_KEY": "k"}, ("k", None, None)),
        ("anthropic", {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "http://a"}, ("k", "http://a", None)),
        ("anthropic", {"ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": "k"}, (None, None, None)),
        ("openai", {"OPENAI_API_KEY": " k\n", "OPENAI_BASE_URL": "http://a"}, ("k", "http://a", None)),
        ("openai_responses", {"OPENAI_API_KEY": "k"}, ("k", None, None)),
        ("gemini", {"GEMINI_API_KEY": "k", "GOOGLE_API_KEY": "other"}, ("k", None, None)),
        ("gemini", {"GEMINI_API_KEY": "", "GOOGLE_API_KEY": "other"}, ("other", None, None)),
        ("google", {"GOOGLE_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": "http://a"}, ("k", "http://a", None)),
        ("gemini_gca", {"GEMINI_API_KEY": "k"}, (None, None, None)),
        (
            "gemini_gca",
            {"GEMINI_GCA_TOKEN": "t", "GOOGLE_CLOUD_PROJECT": "p", "CODE_ASSIST_ENDPOINT": "http://a"},
            ("t", "http://a", "p"),
        ),
        ("gemini", {"GEMINI_API_KEY": "k", "GOOGLE_CLOUD_PROJECT": "p"}, ("k", None, None)),
        ("openrouter", {"OPENROUTER_API_KEY": "k"}, ("k", "https://openrouter.ai/api/v1", None)),
        ("ollama", {"OPENAI_API_KEY": "k"}, (None, "http://localhost:11434/v1", None)),
        ("ollama", {"OLLAMA_HOST": "host:1"}, (None, "http://host:1/v1", None)),
        ("vllm", {"OPENAI_API_KEY": "k"}, (None, "http://localhost:8000/v1", None)),
        ("vllm", {"VLLM_API_KEY": "k", "VLLM_BASE_URL": "http://a/v1"}, ("k", "http://a/v1", None)),
    ],
)
def test_built_in_providers_read_their_variables(
    name: str, environment: dict[str, str], expected: tuple[str | None, ...]
) -> None:
    assert reached(name, environment, Settings()) == expected


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("", "http://localhost:11434/v1"),
        ("127.0.0.1", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:1234", "http://127.0.0.1:1234/v1"),
        (":1234", "http://localhost:1234/v1"),
        ("host", "http://host:11434/v1"),
        ("host:", "http://host:11434/v1"),
        ("host:1234", "http://host:1234/v1"),
        ("host:99999", "http://host:11434/v1"),
        ("host:many", "http://host:11434/v1"),
        ("http://host", "http://host:80/v1"),
        ("https://host", "https://host:443/v1"),
        ("https://host:1234/", "https://host:1234/v1"),
        ("http://host:1234/ollama/", "http://host:1234/ollama/v1"),
        ("http://host:1234/v1", "http://host:1234/v1"),
        ("[::1]", "http://[::1]:11434/v1"),
        ("::1", "http://[::1]:11434/v1"),
        ("[::1]:1234", "http://[::1]:1234/v1"),
        ("[::]:1234", "http://localhost:1234/v1"),
        (' "host:1234" ', "http://host:1234/v1"),
    ],
)
def test_the_address_of_ollama_is_read_as_ollama_reads_it(host: str, address: str) -> None:
    assert ollama_address(host) == address


def test_an_invalid_address_in_the_environment_is_refused() -> None:
    with pytest.raises(CommandError, match=r"OLLAMA_HOST must be host, host:port or an http:// or https:// URL, not"):
        access("ollama", {"OLLAMA_HOST": "ftp://host"}, Settings())
    with pytest.raises(
        CommandError, match="VLLM_BASE_URL in the environment must be an address such as https://host/v1"
    ):
        access("vllm", {"VLLM_BASE_URL": "localhost:8000"}, Settings())


def test_a_missing_or_invalid_key_is_an_error(place: Place) -> None:
    with pytest.raises(ProviderError, match="openrouter needs a key: set OPENROUTER_API_KEY in the environment") as no:
        access("openrouter", {"OPENAI_API_KEY": "k"}, Settings())
    assert no.value.kind == "key"
    place.user_file(f'{TEAM}key_env = "TEAM_KEY"\n')
    with pytest.raises(ProviderError, match="team needs a key: set TEAM_KEY in the environment"):
        access("team", {"OPENAI_API_KEY": "k"}, place.load())
    for key in ("secret\nx", "sécret", "secret x"):
        with pytest.raises(ProviderError) as error:
            access("openai", {"OPENAI_API_KEY": key}, Settings())
        assert str(error.value) == "OPENAI_API_KEY holds characters that no key has; set it to the key alone"


def test_a_key_is_not_shown() -> None:
    reach = access("openai", {"OPENAI_API_KEY": "secret"}, Settings())
    assert "secret" not in f"{reach!r} {reach}"


# Configured


def test_a_configured_server_has_its_own_address_and_key(place: Place) -> None:
    place.user_file(f'{TEAM}key_env = "TEAM_KEY"\n[context]\nmodel = "team/qwen/coder"\n')
    settings = place.load()
    assert settings.providers == {"team": Server("openai", "https://models.example.com/v1", "TEAM_KEY")}
    assert settings.dialects == {"team": "openai"}
    assert settings.config({}).model == "team/qwen/coder"
    environment = {"TEAM_KEY": "k", "OPENAI_API_KEY": "other", "OPENAI_BASE_URL": "http://other"}
    assert reached("team", environment, settings) == ("k", "https://models.example.com/v1", None)


def test_a_built_in_provider_may_get_another_address(place: Place) -> None:
    place.user_file('[providers.openai]\nbase_url = "http://proxy/v1"\n[providers.vllm]\nkey_env = "MY_KEY"\n')
    settings = place.load()
    assert settings.dialects == {}
    assert reached("openai", {"OPENAI_API_KEY": "k"}, settings) == ("k", "http://proxy/v1", None)
    environment = {"OPENAI_BASE_URL": "http://other"}
    assert access("openai", environment, settings).base_url == "http://other"
    assert access("vllm", {"MY_KEY": "k", "VLLM_API_KEY": "other"}, settings).key == "k"


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "gemini"])
def test_a_server_without_a_key_gets_no_other_key(place: Place, dialect: str) -> None:
    place.user_file(f'{TEAM}dialect = "{dialect}"\n')
    environment = {"OPENAI_API_KEY": "a", "ANTHROPIC_API_KEY": "b", "GEMINI_API_KEY": "c"}
    found = access("team", environment, place.load())
    assert (found.key, found.given_key, found.foreign) == (None, NO_KEY, True)


@pytest.mark.parametrize(
    ("lines", "line", "told"),
    [
        ('key = "sk-secret"', 2, "a key must not be in a file: put it into an environment variable and name the"),
        ('api_key = "sk-secret"', 2, "a key must not be in a file: put it into an environment variable"),
        ('auth_token = "sk-secret"', 2, "a key must not be in a file: put it into an environment variable"),
        ('key_env = "sk-secret"', 2, 'key_env must be the name of a variable, such as "MY_API_KEY", not the'),
        ('key_env = "AIzasecret"', 2, 'key_env must be the name of a variable, such as "MY_API_KEY", not the'),
        ("key_env = 5", 2, 'key_env must be the name of a variable, such as "MY_API_KEY", not the key itself'),
        ('base_url = "https://user:secret@host/v1"', 2, "base_url must not hold a name or password"),
        ('base_url = "host:8000"', 2, 'base_url must be an address such as "https://host:8000/v1"'),
        ('base_url = "http://[host"', 2, 'base_url must be an address such as "https://host:8000/v1"'),
        ('base_url = "http://host:99999"', 2, 'base_url must be an address such as "https://host:8000/v1"'),
        ('base_url = "http://ho st"', 2, 'base_url must be an address such as "https://host:8000/v1"'),
        ("base_url = 5", 2, 'base_url must be an address such as "https://host:8000/v1"'),
        ('dialect = "mistral"', 2, "dialect must be one of openai, anthropic, gemini"),
        ("dialect = [1]", 2, "dialect must be one of openai, anthropic, gemini"),
        ('baseurl = "http://host"', 2, "a provider has no 'baseurl'; did you mean base_url?"),
        ('dialect = "openai"', 1, "[providers.team] has neither base_url nor key_env; give at least one"),
        ("", 1, "[providers.team] has neither base_url nor key_env; give at least one"),
    ],
)
def test_wrong_tables_of_providers_are_refused(place: Place, lines: str, line: int, told: str) -> None:
    path = place.user_file(f"[providers.team]\n{lines}\n")
    with pytest.raises(CommandError) as error:
        place.load()
    assert str(error.value).startswith(f"{path}, line {line}: {told}")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("offline", BAD_NAME.format("'offline'")),
        ("google", BAD_NAME.format("'google'")),
        ('"a/b"', BAD_NAME.format("'a/b'")),
        ('""', BAD_NAME.format("''")),
        ("openai", "openai is built in and has its dialect; leave dialect out, or choose another name"),
    ],
)
def test_wrong_names_of_providers_are_refused(place: Place, name: str, told: str) -> None:
    place.user_file(f'[providers.{name}]\ndialect = "openai"\nbase_url = "http://host"\n')
    with pytest.raises(CommandError) as error:
        place.load()
    assert str(error.value).endswith(told)


def test_a_providers_key_that_is_not_a_table_is_refused(place: Place) -> None:
    place.user_file("[providers]\nteam = 5\n")
    with pytest.raises(CommandError, match=r"line 2: team must be a table, as \[providers.team\] on its own line"):
        place.load()


# From the name of a model to the server


@pytest.mark.parametrize("name", [*BUILT_IN, "google", "team"])
def test_a_configured_provider_has_its_dialect(name: str) -> None:
    own = {"team": "anthropic"}
    same = {"team": "anthropic", "google": "gemini"}.get(name, name)
    assert dialect_of(name, own) is dialect_of(same)
    check_model(f"{name}/some-model", own)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("nobody/x", ""),
        ("team", "team/MODEL"),
        ("team/", "team/MODEL"),
        ("openai", "openai/gpt-…"),
        ("", ""),
        ("TEAM/x", "team/x"),
    ],
)
def test_unknown_providers_are_refused(name: str, meant: str) -> None:
    there_is = "anthropic, openai, openai_responses, gemini, gemini_gca, openrouter, ollama, vllm, offline, team"
    with pytest.raises(CommandError) as error:
        check_model(name, {"team": "openai"})
    of, hint = (
        ("", f"did you mean {meant}?")
        if meant
        else (f" with one of {there_is}", "for example anthropic/claude-opus-4-5")
    )
    assert str(error.value) == f"a model must be 'offline' or PROVIDER/MODEL{of}, not '{name}'; {hint}"
    if not name.lower().startswith(("team", "openai")):
        with pytest.raises(
            CommandError, match=f"there is no provider '{name.partition('/')[0]}'; available: {there_is}"
        ):
            dialect_of(name.partition("/")[0], {"team": "openai"})
        with pytest.raises(CommandError, match=f"there is no provider '{name[:40]}'; available: anthropic, .*offline"):
            access(name, {}, Settings())


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("anthropic/x", "ANTHROPIC_API_KEY"),
        ("openai/x", "OPENAI_API_KEY"),
        ("google/x", "GEMINI_API_KEY"),
        ("openrouter/x", "OPENROUTER_API_KEY"),
        ("ollama/x", None),
        ("gemini_gca/x", None),
        ("offline", None),
    ],
)
def test_a_missing_key_is_known_before_a_request(model: str, variable: str | None, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path)}
    told = obstacle(model, home, Settings())
    if variable is None:
        assert told is None
    else:
        assert (told or "").endswith(f". Set {variable}.")
        assert obstacle(model, {**home, variable: "k"}, Settings()) is None


def test_credentials_that_an_sdk_may_find_are_no_obstacle(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path)}
    assert obstacle("anthropic/x", {**home, "ANTHROPIC_PROFILE": "work"}, Settings()) is None
    assert obstacle("anthropic/x", {**home, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}, Settings()) is None
    (tmp_path / ".config" / "anthropic").mkdir(parents=True)
    assert obstacle("anthropic/x", home, Settings()) is None


@pytest.mark.parametrize("name", [name for name, spec in BUILT_IN.items() if spec.extra])
def test_a_missing_sdk_is_known_before_a_request(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = BUILT_IN[name].extra
    monkeypatch.setitem(sys.modules, SDKS[extra], None)
    told = obstacle(f"{name}/x", dict.fromkeys(BUILT_IN[name].keys, "k"), Settings())
    assert told == f"The SDK for {name} is not installed; {installs(extra)}"


def test_a_provider_of_the_settings_needs_the_sdk_of_its_dialect(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Settings(providers={"team": Server("anthropic", "https://team.example", "TEAM_KEY")})
    assert obstacle("team/x", {}, own) == "There is no key for team. Set TEAM_KEY."
    monkeypatch.setitem(sys.modules, "anthropic", None)
    assert installs("anthropic") in (obstacle("team/x", {"TEAM_KEY": "k"}, own) or "")


def test_the_offline_model_needs_nothing() -> None:
    assert type(provider("offline", Settings())).__name__ == "OfflineModel"


def test_an_agent_refuses_an_unknown_provider(place: Place) -> None:
    place.user_file(TEAM)
    with foldmark.open(":memory:", settings=place.load()) as log:
        agent = log.agent("a")
        assert agent.do("/model team/x").text == "Model: team/x"
        assert agent.request().dialect == "openai"
        with pytest.raises(CommandError, match=r"with one of .*, offline, team, not 'nobody/x'"):
            agent.do("/model nobody/x")


@pytest.mark.parametrize(
    ("dialect", "wire", "path"),
    [("openai", OpenAIWire(), "/v1"), ("anthropic", AnthropicWire(), ""), ("gemini", GeminiWire(), "")],
)
def test_a_request_goes_to_a_configured_server(
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    dialect: str,
    wire: OpenAIWire | AnthropicWire | GeminiWire,
    path: str,
) -> None:
    """The request carries the server's own key or none, whatever other keys are in the environment."""
    for name, end in product(("OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE"), ("API_KEY", "AUTH_TOKEN")):
        monkeypatch.setenv(f"{name}_{end}", "SECRET")
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "SECRET")
    for name in ("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS"):
        monkeypatch.setenv(name, "X-Gateway: SECRET")
    monkeypatch.setenv("TEAM_KEY", "own-key")

    async def said(agent: foldmark.Agent, settings: Settings) -> str:
        asked = provider(agent.standing().config.model, settings)
        async with aclosing(asked.answer(agent.request())) as pieces:
            return "".join([piece async for piece in pieces if isinstance(piece, str)])

    for key_env in ('key_env = "TEAM_KEY"\n', ""):
        with Loopback(wire, [Reply((Say(("Good ", "day.")),))]) as server:
            place.user_file(f'[providers.team]\ndialect = "{dialect}"\nbase_url = "{server.url}{path}"\n{key_env}')
            settings = place.load(options={"model": f"team/{wire.model}"})
            with foldmark.open(":memory:", settings=settings) as log:
                agent = log.agent("a")
                agent.append("user", "Hello.")
                if key_env or dialect != "openai":
                    assert asyncio.run(said(agent, settings)) == "Good day."
                else:
                    with pytest.raises(ProviderError):  # this server requires a key
                        asyncio.run(said(agent, settings))
        (request,) = server.requests
        assert "SECRET" not in str(request.headers)
        assert ("own-key" in str(request.headers)) == bool(key_env)


def test_commands_that_ask_the_model_reach_a_configured_server(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM_KEY", "own-key")
    with Loopback(OpenAIWire(), [Reply((Say(("The gist.",)),))]) as server:
        place.user_file(f'[providers.team]\nbase_url = "{server.url}/v1"\nkey_env = "TEAM_KEY"\n')
        with foldmark.open(":memory:", settings=place.load(options={"model": "team/gpt-5"})) as log:
            agent = log.agent("a")
            agent.append("user", "Hello.")
            agent.append("assistant", "Good day.")
            agent.end_turn()
            agent.do("/summarize")
            assert [message.content for message in agent.context().messages] == ["The gist."]
    assert not server.refusals
