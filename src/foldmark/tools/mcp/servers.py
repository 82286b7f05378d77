"""The MCP servers of a project's `.mcp.json`, in Claude Code's format [SPEC 4.1].

The file comes with a project and is not trusted. Each server is checked on its own, and does nothing that the person
has not seen before it starts.
"""

import re
import shlex
import stat
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from foldmark.core.codec import Secrets, well_formed
from foldmark.core.errors import CommandError
from foldmark.core.wording import listing, one_line

LONGEST = 32 * 1024
"""Maximum number of characters of one expanded text."""

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_SECRET = re.compile(r"key|token|secret|passw|pwd|auth|credential|bearer|cookie|pat$", re.IGNORECASE)


class Expansion(NamedTuple):
    """A text with expanded variables, and its form for a person, in which secrets such as `${GITHUB_TOKEN}` stay as
    they are."""

    text: str
    shown: str


def _expanded(text: str, environment: Mapping[str, str]) -> Expansion:
    """Return `text` with the variables of `environment` expanded once. A default replaces an unset or empty variable.
    Raises CommandError for a missing variable or a text that is too long."""
    values = [_value(match, environment) for match in _REFERENCE.finditer(text)]
    if len(text) > LONGEST or sum(map(len, values)) > LONGEST:
        raise CommandError(f"is longer than {LONGEST:,} characters")
    return Expansion(
        _REFERENCE.sub(lambda match: _value(match, environment), text),
        _REFERENCE.sub(lambda match: match[0] if _is_secret(match[1]) else _value(match, environment), text),
    )


def _is_secret(name: str) -> bool:
    """Return True if the name suggests a key."""
    return _SECRET.search(name) is not None


def _value(match: re.Match[str], environment: Mapping[str, str]) -> str:
    name, default = match[1], match[2]
    value = environment.get(name)
    if default is not None:
        return value or default
    if value is None:
        raise CommandError(
            f"needs the variable {name[:60]}, which is not set; set it in the environment, or write "
            f"${{{name[:60]}:-default}}"
        )
    return value


FILE = ".mcp.json"
MOST_BYTES = 256 * 1024
MOST_SERVERS = 32
MOST_ITEMS = 256
"""Maximum number of arguments, variables or headers of one server."""
MOST_SHOWN = 4000
"""Maximum number of characters of a server's description. A person cannot agree to a text that is too long to read."""

_NAME = re.compile(r"(?=.{1,32}$)[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^`|~_-]{1,100}")
_VARIABLE = re.compile(r"[^=\0]{1,200}")
_HTTP = {"http": "http", "streamable-http": "http", "sse": "sse"}


class Program(Struct, frozen=True):
    """A server to start: its command line, and its variables in addition to a few harmless ones."""

    command: tuple[str, ...]
    env: dict[str, str]


class Endpoint(Struct, frozen=True):
    """A server that runs elsewhere. `transport` is `http` (streamable) or `sse`."""

    transport: str
    url: str
    headers: dict[str, str]


class McpServer(Struct, frozen=True):
    """A configured server. `shown` is the line that a person has to agree to, without keys. `approval` is the name
    under which an answer is remembered; it changes with the command and its folder."""

    name: str
    at: Program | Endpoint
    shown: str
    approval: str


class ConfiguredServers(NamedTuple):
    """The usable servers in the order of the file, and one line for each error of the others."""

    servers: tuple[McpServer, ...] = ()
    wrong: tuple[str, ...] = ()


def configured(folder: Path, environment: Mapping[str, str], secrets: Secrets) -> ConfiguredServers:
    """Return the servers of the `.mcp.json` in `folder`; none if there is no file. Starts no server and raises no
    error."""
    path = folder / FILE
    try:
        named = _named(path)
    except CommandError as error:
        return ConfiguredServers(wrong=(str(error),))
    servers, wrong = [], []
    for name, about in list(named.items())[:MOST_SERVERS]:
        try:
            servers.append(_ServerParser(folder, environment, secrets).server(name, about))
        except CommandError as error:
            wrong.append(f"{path}: mcpServers.{name[:40]}{error}")
    if len(named) > MOST_SERVERS:
        wrong.append(f"{path}: mcpServers has {len(named):,} servers; only the first {MOST_SERVERS} are used")
    return ConfiguredServers(tuple(servers), tuple(one_line(each) for each in wrong))


def _named(path: Path) -> dict[str, Any]:
    """Return the members of `mcpServers`. Raises CommandError."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise CommandError(f"{path} is not a regular file; MCP servers are read from a JSON file")
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > MOST_BYTES:
        raise CommandError(f"{path} is too large for a list of servers, which has up to {MOST_BYTES:,} bytes")
    try:
        whole = well_formed(msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf")))
    except RecursionError:
        raise CommandError(f"{path} is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} is not JSON: {error}") from None
    named = whole.get("mcpServers") if isinstance(whole, dict) else None
    if not isinstance(named, dict):
        raise CommandError(f'{path} is an object with the member mcpServers: {{"mcpServers": {{NAME: ...}}}}')
    return named


class _ServerParser(NamedTuple):
    """Parses one server. Errors begin with the member that they are about, as in `.args[1] is ...`."""

    folder: Path
    environment: Mapping[str, str]
    secrets: Secrets

    def server(self, name: str, about: Any) -> McpServer:
        """Return the server that `about` describes. Raises CommandError."""
        if not _NAME.fullmatch(name):
            raise CommandError(": a server's name is up to 32 letters, digits, - and single _ inside")
        if not isinstance(about, dict):
            raise CommandError(
                ' is an object such as {"command": "npx", "args": [...]} or {"type": "http", "url": ...}'
            )
        kind = about.get("type", "stdio" if "command" in about or "url" not in about else "http")
        if kind != "stdio" and not (isinstance(kind, str) and kind in _HTTP):
            raise CommandError(f".type must be one of {listing(('stdio', *_HTTP))}")
        at, shown = self._program(about) if kind == "stdio" else self._endpoint(_HTTP[kind], about)
        shown = self.secrets.hidden(shown)
        if len(shown) > MOST_SHOWN:
            raise CommandError(f" is longer than the {MOST_SHOWN:,} characters that a person can be shown to agree to")
        mark = blake2b(msgspec.json.encode([str(self.folder), shown]), digest_size=10).hexdigest()
        return McpServer(name, at, one_line(shown), f"mcp:{name}:{mark}")

    def _program(self, about: Mapping[str, Any]) -> tuple[Program, str]:
        command = self._text(".command", about.get("command"))
        if not command.text.strip():
            raise CommandError('.command must be the program to start, such as "npx"')
        args = about.get("args", [])
        if not isinstance(args, list) or len(args) > MOST_ITEMS:
            raise CommandError(f".args must be a list of up to {MOST_ITEMS} texts")
        line = [command, *(self._text(f".args[{index}]", arg) for index, arg in enumerate(args))]
        env = dict(self._pairs("env", about, _VARIABLE, "a variable's name has no ="))
        shown = shlex.join(part.shown for part in line)
        if env:
            # A semicolon inside an argument would be quoted, so this separator is unambiguous.
            named = (f"{shlex.quote(name)}={shlex.quote(value.shown)}" for name, value in env.items())
            shown += "; with " + " ".join(named)
        return Program(tuple(part.text for part in line), {name: value.text for name, value in env.items()}), shown

    def _endpoint(self, transport: str, about: Mapping[str, Any]) -> tuple[Endpoint, str]:
        url = self._text(".url", about.get("url"))
        try:
            parts = urlsplit(url.text)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            good = False
        if not good or not url.text.isascii() or not url.text.isprintable() or " " in url.text:
            raise CommandError('.url must be an address such as "https://host/mcp"')
        if "@" in parts.netloc:
            raise CommandError('.url has a name or password in it; give "headers": {"Authorization": ...} instead')
        headers = dict(self._pairs("headers", about, _HEADER, "a header's name is letters, digits and -"))
        for name, value in headers.items():
            if not value.text.isascii() or not value.text.isprintable():
                raise CommandError(f".headers.{name} has characters that are not allowed in a header")
        shown = f"{url.shown} ({transport})"
        if headers:
            shown += "; with " + " ".join(f"{name}: {shlex.quote(value.shown)}" for name, value in headers.items())
        return Endpoint(transport, url.text, {name: value.text for name, value in headers.items()}), shown

    def _pairs(
        self, member: str, about: Mapping[str, Any], names: re.Pattern[str], rule: str
    ) -> Iterator[tuple[str, Expansion]]:
        found = about.get(member, {})
        if not isinstance(found, dict) or len(found) > MOST_ITEMS:
            raise CommandError(f".{member} must be an object of up to {MOST_ITEMS} names with texts")
        for name, value in found.items():
            if not names.fullmatch(name):
                raise CommandError(f".{member}: {rule}, not {name[:40]!r}")
            read = self._text(f".{member}.{name[:40]}", value)
            # Hide a key that is written into the file itself.
            yield name, read._replace(shown="…") if _is_secret(name) and read.shown == read.text else read

    def _text(self, member: str, value: Any) -> Expansion:
        if not isinstance(value, str) or "\0" in value:
            raise CommandError(f"{member} must be a text")
        try:
            return _expanded(value, self.environment)
        except CommandError as error:
            raise CommandError(f"{member} {error}") from None
