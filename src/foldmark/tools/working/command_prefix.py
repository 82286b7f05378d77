"""What a permanent answer about a command covers: its beginning, such as `git status`, or exactly this command.

A beginning covers a command line only if the line is one plain command: one program with its arguments. Nothing is
plain that could run something else: several commands, pipes, redirections, substitutions, variables, escapes, line
breaks. A line that is plain for `shlex` has the same words for a shell; a test compares both.
"""

import re
from hashlib import sha256
from shlex import shlex

from foldmark.tools.tool import Coverage

MOST_WORDS = 6
"""Maximum number of words of a beginning."""

_OPERATORS = frozenset("();<>|&")
_SPECIAL = frozenset("$`\\")
"""Characters that a shell may act on inside double quotes."""

_PROGRAM = re.compile(r"[\w./][\w./+@-]{0,99}", re.ASCII)
_WORD = re.compile(r"[\w./][\w./+@:-]{0,99}", re.ASCII)
"""Words that mean themselves: no assignment, pattern, home folder or option. A digest has a colon, a program none."""

_WITH_SUBCOMMANDS = (
    "apt apt-get brew bun cargo conda docker dotnet gh git glab go helm hg jj just kubectl make npm pip pip3 pnpm "
    "podman poetry rustup svn systemctl terraform uv yarn"
)
"""Programs whose second word says what they do."""

_RUNS = "compose dlx exec run x"
"""Second words of these programs that run what the next words say."""

_RUNNERS = (
    ". ash at awk bash batch bind builtin bunx busybox case chroot command compgen complete coproc crontab csh "
    "dash deno doas enable env eval exec expect fd find fish flock for function gawk gdb if ionice ksh ltrace lua "
    "mapfile mawk nice node nohup npx nsenter osascript parallel perl php pipx pnpx python readarray ruby screen "
    "script sed select setsid sh source ssh stdbuf strace su sudo tcsh time timeout tmux trap unbuffer unshare "
    "until uvx watch while xargs zsh"
)
"""Programs and words of the shell that run what their arguments say, so that their names say nothing."""


def plain_words(command: str) -> list[str] | None:
    """Return the words of a command line that is one plain command; None for any other."""
    if _SPECIAL & {*command} or not command.replace("\t", " ").isprintable():
        return None
    lexer = shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = [*lexer]
    except ValueError:  # a quote is open
        return None
    return None if any(word and _OPERATORS.issuperset(word) for word in words) else words


def command_coverage(tool: str, command: str, folder: str) -> Coverage:
    """Return what a permanent answer about a command in a folder covers. `tool` is the name of the tool that runs
    it."""
    digest = sha256(f"{folder}\0{command}".encode(errors="surrogateescape")).hexdigest()[:32]
    exact = f"{tool}(sha256:{digest})"
    words = plain_words(command) or []
    literal: list[str] = []
    for word in words[:MOST_WORDS]:
        if not (_WORD if literal else _PROGRAM).fullmatch(word):
            break
        literal.append(word)
    names = [f"{tool}({' '.join(literal[:size])})" for size in range(len(literal), 0, -1)]
    beginning = _beginning(literal)
    remembered = f"{tool}({beginning})" if beginning else exact
    covers = f"{beginning} … (with any arguments)" if beginning else "exactly this command in this folder"
    return Coverage((exact, *names, tool), remembered, covers, unclear=not beginning)


def _beginning(words: list[str]) -> str:
    """Return the first word or two, which say what a plain command does; "" if they do not."""
    if not words:
        return ""
    program = words[0].rpartition("/")[2]
    if {program, program.rstrip("0123456789.")} & {*_RUNNERS.split()}:
        return ""
    if program not in _WITH_SUBCOMMANDS.split():
        return words[0]
    return " ".join(words[:2]) if len(words) > 1 and words[1] not in _RUNS.split() else ""
