"""Lists the messages of the program: `.venv/bin/python tests/docs/program_messages.py [KIND]`.

Each line has the kind, the place, the message with `{…}` for its values, and the part that says what to do next. The
messages are read from the syntax of the sources, so a text that another module composes is a value.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[2] / "src"

VALUE = "{…}"
CALLS = {
    "print": "printed",
    "echo": "printed",
    "warn": "printed",
    "fail": "printed",
    "show": "printed",
    "show_text": "printed",
    "explain": "printed",
    "Result": "result",
    "operation_result": "result",
    "problem": "problem",
    "StoreFinding": "problem",
    "Finding": "problem",
    "UsageError": "usage",
    "BadParameter": "usage",
    "ClickException": "usage",
}
"""Functions and classes that take a message, by their kind. Classes of errors are found by their base class."""

_ERRORS = "FoldmarkError"
_SKIPPED = ("foldmark/testing/", "foldmark/samples/")
_STEP = re.compile(
    r"`|--\w|(?<![\w/])/[a-z]|did you mean|available|\b(?:set|run|install|name|choose|use|repeat|see|give|write|unset|"
    r"correct|add|free|wait|close|open|ask|put|move|copy|lower|shorten|allow|restart|read|end|try|check|remove|"
    r"create|import|save|answer|need(?:s)? one of|must be|has to be|may be|instead)\b",
    re.IGNORECASE,
)
_PARTS = re.compile(r"(?<=[.;:?])\s+")


class Message(NamedTuple):
    """A message: its kind, file and line, the call that takes it, and its text with `{…}` for values."""

    kind: str
    file: str
    line: int
    taken_by: str
    text: str

    @property
    def next_step(self) -> str:
        """The parts of the text that say what to do, or what there is instead; empty if there are none."""
        return " ".join(part for part in _PARTS.split(self.text) if _STEP.search(part))


def messages() -> list[Message]:
    """Return all messages of the package, by file and line."""
    trees = {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text("utf-8")) for path in sorted(SOURCE.rglob("*.py"))
    }
    errors = _subclasses(trees.values())
    return [
        each for name, tree in trees.items() if not name.startswith(_SKIPPED) for each in listed(name, tree, errors)
    ]


def listed(name: str, tree: ast.Module, errors: set[str]) -> list[Message]:
    """Return the messages of the module `name`. `errors` are the names of the classes of errors."""
    return [Message(kind, name, line, taken_by, text) for kind, line, taken_by, text in _in_module(tree, errors)]


def _subclasses(trees: Iterable[ast.Module]) -> set[str]:
    """Return the names of the classes of errors that the program raises on purpose."""
    bases = {
        node.name: {_name(base) for base in node.bases}
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    known, size = {_ERRORS}, 0
    while len(known) > size:
        size = len(known)
        known |= {name for name, its in bases.items() if its & known}
    return known


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _in_module(tree: ast.Module, errors: set[str]) -> Iterator[tuple[str, int, str, str]]:
    constants = _assigned(tree.body)
    yield from _helps(tree)
    for scope, call in _calls(tree, None):
        taken_by = _name(call.func)
        kind = "error" if taken_by in errors else CALLS.get(taken_by)
        if kind is None:
            continue
        local = _assigned(ast.walk(scope)) if scope else {}
        values = [*call.args, *(each.value for each in call.keywords if each.arg in ("text", "remedy"))]
        texts = [" ".join(_pattern(value, {**constants, **local}, 3).split()) for value in values]
        texts = [
            each for each in texts if re.search(r"[^\W\d_]", each.replace(VALUE, "")) and (" " in each or VALUE in each)
        ]
        if texts:
            yield kind, call.lineno, taken_by, " | ".join(texts)


def _helps(tree: ast.Module) -> Iterator[tuple[str, int, str, str]]:
    """Yield the first lines of the help of commands, and the help of options."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (help := ast.get_docstring(node)):
            decorators = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
            if any(_name(each) in ("command", "group") for each in decorators):
                yield "help", node.lineno, node.name, help.partition("\n\n")[0].replace("\n", " ")
        if isinstance(node, ast.Call):
            for each in node.keywords:
                if each.arg == "help" and isinstance(each.value, ast.Constant) and isinstance(each.value.value, str):
                    yield "help", node.lineno, "help", each.value.value


def _calls(node: ast.AST, scope: ast.AST | None) -> Iterator[tuple[ast.AST | None, ast.Call]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield scope, child
        inner = child if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else scope
        yield from _calls(child, inner)


def _assigned(nodes: Iterable[ast.AST]) -> dict[str, list[ast.expr]]:
    """Return the expressions that are assigned to each name, with what is added to them."""
    found: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = list(zip(target.elts, node.value.elts, strict=False))
                for name, value in pairs:
                    if isinstance(name, ast.Name):
                        found.setdefault(name.id, []).append(value)
        elif isinstance(node, ast.NamedExpr):
            found.setdefault(node.target.id, []).append(node.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            *others, last = found.get(node.target.id, [ast.Constant("")])
            found[node.target.id] = [*others, ast.BinOp(last, ast.Add(), node.value)]
    return found


def _pattern(node: ast.expr, names: dict[str, list[ast.expr]], depth: int) -> str:
    """Return the text of an expression with `{…}` for what is known only at runtime. Alternatives are joined by `/`."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_pattern(value, names, depth) for value in values)
        case ast.FormattedValue(value=value):
            inner = _pattern(value, names, depth - 1) if depth > 0 else VALUE
            return inner if inner == VALUE else f"{{{inner}}}"
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _pattern(left, names, depth) + _pattern(right, names, depth)
        case ast.IfExp(body=body, orelse=orelse):
            return f"{_pattern(body, names, depth)}/{_pattern(orelse, names, depth)}"
        case ast.Name(id=name) if depth > 0 and name in names:
            texts = [_pattern(value, names, depth - 1) for value in names[name]]
            return "/".join(dict.fromkeys(texts))
        case ast.Call(func=func, args=[first, *_]) if _name(func) in ("harmless", "str", "one_line"):
            return _pattern(first, names, depth)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return " ".join(_pattern(each, names, depth) for each in elements)
        case ast.Starred(value=value):
            return _pattern(value, names, depth)
    return VALUE


def main() -> None:
    """Print the list, or the messages of one kind."""
    wanted = sys.argv[1:]
    for each in messages():
        if not wanted or each.kind in wanted:
            print(f"{each.kind}\t{each.file}:{each.line}\t{each.text}\t{each.next_step or '-'}")


if __name__ == "__main__":
    main()
