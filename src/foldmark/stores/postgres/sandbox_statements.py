"""Check and rewrite a model's statement.

The login can read only the views of one scope, in a transaction that cannot write. PostgreSQL leaves two things
unlimited. First, it does not bound the memory of a statement, and a text may grow to a gigabyte: with the login alone,
nine subqueries of `x || x` took 3.9 GB, and 6 s despite a `statement_timeout` of 2. Second, any login may read the
catalog and call hundreds of functions, some of which hold locks or wait. So the statement is parsed, every node of its
tree has to be on a list, and the statement that is sent is generated from the tree: with quoted names, with the schema
of its views, and without comments. How PostgreSQL would have read the original text never matters. Functions that can
enlarge their input (`||`, `replace`, `string_agg`) are replaced by functions in the sandbox's schema with a size limit.
"""

import logging
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any

import sqlglot
from sqlglot import ErrorLevel, exp
from sqlglot.errors import SqlglotError

from foldmark.core.errors import CommandError
from foldmark.core.ports import VIEWS
from foldmark.stores.sandbox import ONLY, checked

MOST_DEPTH, MOST_TABLES, MOST_COLUMNS, MOST_NAME = 60, 12, 100, 50
"""Limits of a statement: depth of its tree, tables read, columns of one SELECT, bytes of a name."""

SHORT = 200
"""Maximum characters of a text to search for in another one: the time grows with the product of both lengths."""

_NODES = (
    "Select Union Intersect Except Subquery With CTE TableAlias From Table Join Where Group Having Order Ordered Limit "
    "Offset Distinct Window WindowSpec Filter Alias Column Identifier Star Literal Boolean Null Var Paren Tuple Case "
    "If And Or Not EQ NEQ GT GTE LT LTE NullSafeEQ NullSafeNEQ Is In Between Exists Like ILike Escape Add Sub Mul Div "
    "Mod Neg DPipe Cast DataType DataTypeParam Interval AtTimeZone JSONExtract JSONExtractScalar JSONPath JSONPathRoot "
    "JSONPathKey JSONPathSubscript"
)
"""The allowed nodes of a tree that are not functions."""

_PARTS = ("recursive", "only", "db", "catalog")
"""Parts that no node may have. The login and the transaction reject everything else that matters."""

_FUNCTIONS = (
    "Abs Avg Ceil Coalesce Concat Concat_Ws Count Cume_Dist Current_Date Dense_Rank Extract First_Value Floor Greatest "
    "Lag Last_Value Lead Least Left Length Lower Max Min Nth_Value Ntile Nullif Percent_Rank Rank Replace Reverse "
    "Right Round Row_Number Sign Split_Part Starts_With Sum Trim Upper"
)
_OTHER_NAMES = {
    "CurrentTimestamp": "now",
    "GroupConcat": "string_agg",
    "LogicalAnd": "bool_and",
    "LogicalOr": "bool_or",
    "StrPosition": "strpos",
    "Substring": "substr",
    "TimestampTrunc": "date_trunc",
}
_NAMES = {name.replace("_", ""): name.lower() for name in _FUNCTIONS.split()} | _OTHER_NAMES
"""The allowed functions with their own nodes: node -> PostgreSQL's name."""

_PLAIN = frozenset({"json_array_length", "json_typeof", "jsonb_array_length", "jsonb_typeof", "octet_length"})
"""The other allowed functions, which have no node type."""

_ALLOWED = frozenset({*_NODES.split(), *_NAMES, "Anonymous"})

_TYPE_NAMES = (
    "BIGINT BOOLEAN DATE DECIMAL DOUBLE FLOAT INT INTERVAL JSON JSONB SMALLINT TEXT TIME TIMESTAMP TIMESTAMPTZ VARCHAR"
)
_TYPES = frozenset(_TYPE_NAMES.split())
"""The types that a value may be cast to; none that looks up a name (`regclass`) or pads (`char`)."""

_TEXTS = (exp.Identifier, exp.Literal, exp.Anonymous, exp.JSONPathKey)
"""Nodes that can contain any text; each content is checked."""

_SEARCHED: dict[type[Any], str] = {
    exp.Replace: "expression",
    exp.SplitPart: "delimiter",
    exp.StrPosition: "substr",
    exp.StartsWith: "expression",
    exp.Trim: "expression",
}
"""Functions that search for a text, and the name of the argument that contains it."""

# PostgreSQL reads `m.name` as a call of the function `name` on a row, so only known columns are allowed.
_COLUMNS = frozenset({*(column for columns in VIEWS.values() for column in columns), *_NAMES.values(), *_PLAIN, "case"})
_NUMBER = re.compile(r"\d{1,1000}(?:\.\d{0,1000})?(?:[eE][+-]?\d{1,4})?|\.\d{1,1000}")
_WORD = re.compile(r"[A-Za-z_]{1,40}(?: [A-Za-z_]{1,40})?")

# sqlglot logs statements that it cannot parse, and a terminal may show these logs. Such statements are refused anyway.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)


def rewritten(sql: str, schema: str) -> str:
    """Return the statement to send instead of a model's. `schema` contains the sandbox's views and functions. Raises
    CommandError for forbidden parts."""
    sql = checked(sql, "leave it out")
    try:
        parsed = [each for each in sqlglot.parse(sql, dialect="postgres") if not isinstance(each, exp.Semicolon | None)]
        if len(parsed) > 1:
            raise CommandError("sql holds more than one statement; send them one by one")
        if not parsed:
            raise CommandError(f"there is no statement in sql; write one SELECT. {ONLY}")
        (tree,) = parsed
        if not isinstance(tree, exp.Select | exp.SetOperation | exp.Subquery):
            raise CommandError(f"only SELECT is possible: query_db only reads. {ONLY}")
        _check(tree)
        return _changed(tree, schema).sql("postgres", **_WRITING)
    except SqlglotError as error:
        raise CommandError(f"the SQL cannot be parsed: {_reason(error)}. Write one SELECT. {ONLY}") from None
    except RecursionError:
        raise CommandError(_DEEP) from None


_DEEP = f"the statement is too complicated: expressions may be nested at most {MOST_DEPTH} deep"


_WRITING: dict[str, Any] = {
    "identify": True,
    "comments": False,
    "normalize_functions": False,
    "unsupported_level": ErrorLevel.RAISE,
}


def _reason(error: SqlglotError) -> str:
    found = getattr(error, "errors", None)
    message = str(found[0]["description"]) if found else str(error)
    return " ".join(re.sub(r"\x1b\[\d*m", "", message).split())[:200].rstrip(".")


def _refused(problem: str) -> CommandError:
    return CommandError(f"{problem}. {ONLY}")


# Checks


def _check(tree: exp.Expression) -> None:
    """Raise CommandError unless all parts of a tree are on the lists."""
    tables = 0
    names = set(_COLUMNS)
    columns: list[str] = []
    for node, depth in _walk(tree, 0):
        if depth > MOST_DEPTH:
            raise CommandError(_DEEP)
        if type(node).__name__ not in _ALLOWED:
            raise _refused(f"{_called(node)} cannot be used")
        if isinstance(node, exp.Anonymous) and str(node.this).lower() not in _PLAIN:
            raise _refused(f"the function {_shown(str(node.this))} cannot be used")
        for part in _PARTS:
            if node.args.get(part):
                raise _refused(f"{_called(node)} cannot be used with {part}")
        match node:
            case exp.Select() if len(node.expressions) > MOST_COLUMNS:
                raise CommandError(f"a SELECT has at most {MOST_COLUMNS} columns")
            case exp.Table():
                tables += 1
                if not isinstance(node.this, exp.Identifier):
                    raise _refused("a function in FROM cannot be used")
            case exp.Alias():
                names.add(_name(node.args["alias"]))
            case exp.TableAlias():
                names.update(_name(each) for each in node.args.get("columns") or () if isinstance(each, exp.Identifier))
            case exp.Column() if isinstance(node.this, exp.Identifier):
                columns.append(_name(node.this))
            case exp.Identifier():
                _name(node)
            case exp.Literal() if not node.is_string and not _NUMBER.fullmatch(str(node.this)):
                raise _refused(f"{_shown(str(node.this))} is not a number")
            case exp.Var() if not _WORD.fullmatch(str(node.this)):
                raise _refused(f"{_shown(str(node.this))} cannot be used")
            case exp.DataType() if not isinstance(node.this, Enum) or node.this.name not in _TYPES:
                raise _refused(f"a cast to {_shown(node.sql(dialect='postgres'))} is not possible")
            case exp.JSONPath():
                _json_key(node)
    if tables > MOST_TABLES:
        raise CommandError(f"a statement reads at most {MOST_TABLES} views")
    for column in columns:
        if column not in names:
            raise _refused(f"there is no column {_shown(column)}{_there_is(tree)}")


def _walk(node: exp.Expression, depth: int) -> Iterator[tuple[exp.Expression, int]]:
    """Yield every node with its depth. Raises CommandError for a part that is neither a node nor a plain word."""
    yield node, depth
    for value in node.args.values():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, exp.Expression):
                yield from _walk(each, depth + 1)
            elif isinstance(each, str):
                if not isinstance(node, _TEXTS) and not _WORD.fullmatch(each):
                    raise _refused(f"{_shown(each)} cannot be used")
            elif not isinstance(each, bool | Enum | int | None):
                raise _refused(f"{_called(node)} cannot be used")


def _name(identifier: Any) -> str:
    """Return a name after PostgreSQL's case folding."""
    name = str(identifier.this)
    if not name or len(name.encode()) > MOST_NAME:
        raise CommandError(f"invalid name '{_shown(name)}': a name has 1 to {MOST_NAME} bytes")
    return name if identifier.args.get("quoted") else name.lower()


def _json_key(path: exp.JSONPath) -> exp.Expression:
    """Return the single key or index after `->`."""
    _, *keys = path.expressions
    match keys:
        case [exp.JSONPathKey(this=str(key))]:
            return exp.Literal.string(key)
        case [exp.JSONPathSubscript(this=int(place))]:
            number = exp.Literal.number(abs(place))
            return number if place >= 0 else exp.Neg(this=number)
    raise _refused("-> takes one key or one index")


def _there_is(tree: exp.Expression) -> str:
    named = [each.name.lower() for each in tree.find_all(exp.Table)]
    return "".join(f"; {name} has {', '.join(VIEWS[name])}" for name in VIEWS if name in named)


def _called(node: exp.Expression) -> str:
    """Return the SQL name of a node, or its class in words."""
    if isinstance(node, exp.Func):
        return f"the function {_shown(node.sql_name().lower())}"
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).upper()


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:59]}…"


# Rewriting


def _changed(tree: exp.Expression, schema: str) -> exp.Expression:
    defined = {_name(each.args["alias"].this) for each in tree.find_all(exp.CTE)}
    for part in list(tree.find_all(exp.Substring)):
        _name_part(part)
    for table in list(tree.find_all(exp.Table)):
        _place(table, defined, schema)
    for behind in tree.find_all(exp.CTE):
        behind.args["alias"].set("this", _own(_name(behind.args["alias"].this)))
        behind.set("materialized", True)
    for subquery in tree.find_all(exp.Subquery):
        _keep_apart(subquery)
    for name in tree.find_all(exp.Identifier):
        if not name.args.get("quoted"):
            name.set("this", name.name.lower())
            name.set("quoted", True)
    # Inner nodes come first: a replacement copies the current parts of its node.
    for node in reversed([each for each in tree.walk() if isinstance(each, exp.Expression)]):
        node.replace(_bounded(node, schema))
    return tree


def _own(name: str) -> exp.Identifier:
    """Return a name that no table has, for a subquery after WITH."""
    return exp.Identifier(this=f"with: {name}", quoted=True)


def _place(table: exp.Table, defined: set[str], schema: str) -> None:
    """Qualify a table with the only possible schema."""
    name = _name(table.this)
    if table.args.get("alias") is None:
        table.set("alias", exp.TableAlias(this=exp.Identifier(this=name, quoted=True)))
    if name in defined:
        table.set("this", _own(name))
    elif name in VIEWS:
        table.set("this", exp.Identifier(this=name, quoted=True))
        table.set("db", exp.Identifier(this=schema, quoted=True))
    else:
        raise _refused(f"{_shown(name)} cannot be read")


def _keep_apart(subquery: exp.Subquery) -> None:
    """Have a subquery of FROM evaluated separately, like those after WITH. Otherwise PostgreSQL would substitute its
    expressions for each of its names, again and again, and run out of memory before it checks the time."""
    if isinstance(subquery.parent, exp.From | exp.Join):
        inner = subquery.this
        if isinstance(inner, exp.Query) and not isinstance(inner, exp.Subquery) and not inner.args.get("offset"):
            inner.set("offset", exp.Offset(expression=exp.Literal.number(0)))
        if subquery.args.get("alias") is None:
            # Older versions require one.
            subquery.set("alias", exp.TableAlias(this=exp.Identifier(this="_", quoted=True)))


def _name_part(part: exp.Substring) -> None:
    """Name the column of a partial text after its original expression. `query_db` uses it to explain how to read on."""
    start, length = part.args.get("start"), part.args.get("length")
    if isinstance(start, exp.Literal) and isinstance(length, exp.Literal) and isinstance(part.parent, exp.Select):
        text = f"substr({part.this.sql(dialect='postgres')}, {start.name}, {length.name})"
        if part.arg_key == "expressions" and len(text.encode()) <= MOST_NAME:
            part.replace(exp.Alias(this=part.copy(), alias=exp.Identifier(this=text, quoted=True)))


def _bounded(node: exp.Expression, schema: str) -> exp.Expression:
    """Return a node that can neither grow without limit nor run for long without a time check."""

    def call(name: str, *values: exp.Expression) -> exp.Expression:
        return exp.Anonymous(this=f'"{schema}".{name}', expressions=[each.copy() for each in values])

    part = _SEARCHED.get(type(node), "")
    sought = node.args.get(part)
    if isinstance(sought, exp.Expression) and not (isinstance(sought, exp.Literal) and len(sought.name) <= SHORT):
        node.set(part, call("short", sought))
    match node:
        case exp.JSONPath():
            return _json_key(node)
        case exp.Substring():
            # PostgreSQL would treat a text instead of a number as a regular expression.
            bounds = (node.args[each] for each in ("start", "length") if node.args.get(each) is not None)
            whole = [exp.Cast(this=each.copy(), to=exp.DataType.build("int")) for each in bounds]
            return exp.Anonymous(this="substr", expressions=[node.this.copy(), *whole])
        case exp.GroupConcat():
            value, separator = node.this, node.args.get("separator") or exp.Null()
            if isinstance(value, exp.Order):
                value, separator = value.this, exp.Order(this=separator.copy(), expressions=value.expressions)
            return call("string_agg", value, separator)
        case exp.DPipe() | exp.Concat() | exp.ConcatWs() | exp.Replace():
            return call("sized", node)
    return node
