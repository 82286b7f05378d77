"""Check and rewrite a model's statement: only what the server cannot limit.

The server comes first (`sandbox`, `sandbox_login`): the login reads its views and nothing else of the log, the
transaction cannot write, the protocol takes one statement, and limits end most that is slow or large. But PostgreSQL
does not bound the memory of a statement, some loops do not check the time, and any login may read the catalog and call
hundreds of functions. So the statement is parsed, every node of its tree has to be on a list, and the statement that is
sent is generated from the tree, with quoted names and without comments: how PostgreSQL would have read the original
text never matters. Each rule names an attack that nothing else stops; `ATTACKS` in `tests/stores/hostile_postgres.py`
has them, and the tests run them without the rules.
"""

import logging
import re
from enum import Enum
from typing import Any

from sqlglot import ErrorLevel, TokenType, exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError

from foldmark.core.errors import CommandError
from foldmark.core.ports import VIEWS
from foldmark.stores.sandbox import ONLY, checked

MOST_STEPS, MOST_DEPTH, MOST_TABLES, MOST_COLUMNS, MOST_NAME = 30_000, 60, 12, 100, 50
"""Limits of a statement: steps of the parser, depth of its tree, tables read, columns of a SELECT, bytes of a name."""

_NODES = (
    "Select Union Intersect Except Subquery With CTE TableAlias From Table Join Where Group Having Order Ordered Limit "
    "Offset Distinct Window WindowSpec Filter Alias Column Identifier Star Literal Boolean Null Var Paren Tuple Case "
    "If And Or Not EQ NEQ GT GTE LT LTE NullSafeEQ NullSafeNEQ Is In Between Exists Like ILike Escape Add Sub Mul Div "
    "Mod Neg DPipe Cast DataType DataTypeParam Interval AtTimeZone JSONExtract JSONExtractScalar Anonymous"
)
"""The allowed nodes of a tree that are not known functions."""

_CALLS = (
    "abs avg bool_and:LogicalAnd bool_or:LogicalOr ceil coalesce concat concat_ws count cume_dist current_date "
    "date_trunc:TimestampTrunc dense_rank extract first_value floor greatest lag last_value lead least left length "
    "lower max min now:CurrentTimestamp nth_value ntile nullif percent_rank rank replace reverse right round "
    "row_number sign split_part starts_with string_agg:GroupConcat strpos:StrPosition substr:Substring sum trim upper"
)
_FUNCTIONS = {
    node or name.title().replace("_", ""): name for name, _, node in (each.partition(":") for each in _CALLS.split())
}
"""The allowed functions with their own nodes: node -> PostgreSQL's name."""

_PLAIN = frozenset({"json_array_length", "json_typeof", "jsonb_array_length", "jsonb_typeof", "octet_length"})
"""The other allowed functions, which have no node type."""

_ALLOWED = frozenset({*_NODES.split(), *_FUNCTIONS})

_TYPE_NAMES = (
    "BIGINT BOOLEAN DATE DECIMAL DOUBLE FLOAT INT INTERVAL JSON JSONB SMALLINT TEXT TIME TIMESTAMP TIMESTAMPTZ VARCHAR"
)
_TYPES = frozenset(_TYPE_NAMES.split())
"""The types that a value may be cast to."""

_COLUMNS = frozenset({*(name for names in VIEWS.values() for name in names), *_FUNCTIONS.values(), *_PLAIN, "case"})

_TEXTS = (exp.Identifier, exp.Literal, exp.Anonymous)
"""Nodes that can contain any text: it is quoted, or checked."""

_SEARCHED: dict[type[Any], str] = {
    exp.Replace: "expression",
    exp.SplitPart: "delimiter",
    exp.StrPosition: "substr",
    exp.Trim: "expression",
}
"""Functions that search for a text, and the name of the argument that contains it."""

_NUMBER = re.compile(r"\d{1,1000}(?:\.\d{0,1000})?(?:[eE][+-]?\d{1,4})?|\.\d{1,1000}")
_WORD = re.compile(r"[A-Za-z_]{1,40}(?: [A-Za-z_]{1,40})?")

_DEEP = f"the statement is too complicated: expressions may be nested at most {MOST_DEPTH} deep"


class _Parser(Postgres.Parser):  # type: ignore[misc]
    # Elsewhere the key after `->` becomes a path, with another meaning.
    JSON_OPERATORS = {  # noqa: RUF012
        TokenType.ARROW: lambda self, this, key: exp.JSONExtract(this=this, expression=key),
        TokenType.DARROW: lambda self, this, key: exp.JSONExtractScalar(this=this, expression=key),
    }
    _steps = 0

    def _advance(self, times: int = 1) -> None:
        # Stops `int (int (int (1)))` and arrays: the parser tries two readings of each bracket, 2ⁿ of n.
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise CommandError(_DEEP)
        super()._advance(times)


_POSTGRES = Postgres()
_POSTGRES.parser_class = _Parser

# sqlglot logs statements that it cannot parse, and a terminal may show these logs. Such statements are refused anyway.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)


def rewritten(sql: str, schema: str) -> str:
    """Return the statement to send instead of a model's. `schema` contains the sandbox's views and functions. Raises
    CommandError for forbidden parts."""
    sql = checked(sql, "leave it out")
    try:
        parsed = [each for each in _POSTGRES.parse(sql) if not isinstance(each, exp.Semicolon | None)]
        if len(parsed) > 1:
            raise CommandError("sql holds more than one statement; send them one by one")
        if not parsed:
            raise CommandError(f"there is no statement in sql; write one SELECT. {ONLY}")
        (tree,) = parsed
        # Stops DO, which runs a program, and PREPARE, which the session keeps.
        if not isinstance(tree, exp.Select | exp.SetOperation | exp.Subquery):
            raise CommandError(f"only SELECT is possible: query_db only reads. {ONLY}")
        _check(tree)
        changed = _bounded(tree, schema)
        return changed.sql(
            _POSTGRES, identify=True, comments=False, normalize_functions=False, unsupported_level=ErrorLevel.RAISE
        )
    except SqlglotError as error:
        raise CommandError(f"the SQL cannot be parsed: {_reason(error)}. Write one SELECT. {ONLY}") from None
    except RecursionError:
        raise CommandError(_DEEP) from None


def _reason(error: SqlglotError) -> str:
    found = getattr(error, "errors", None)
    message = str(found[0]["description"]) if found else str(error)
    return " ".join(re.sub(r"\x1b\[\d*m", "", message).split())[:200].rstrip(".")


def _refused(problem: str) -> CommandError:
    return CommandError(f"{problem}. {ONLY}")


def _check(tree: exp.Expression) -> None:
    """Raise CommandError unless all parts of a tree are on the lists. Names are folded as PostgreSQL does."""
    nodes: list[Any] = list(tree.walk())
    names, views = set(_COLUMNS), [each.name.lower() for each in nodes if isinstance(each, exp.Table)]
    for node in nodes:
        # Stops a thousand `abs(abs(`: all that follows here calls itself for each level.
        if node.depth > MOST_DEPTH:
            raise CommandError(_DEEP)
        # Stops regular expressions, arrays, functions in FROM, and functions that make a gigabyte, run a statement or
        # show a setting: repeat, query_to_xml, current_setting.
        if type(node).__name__ not in _ALLOWED:
            raise _refused(f"{_called(node)} cannot be used")
        for each in (each for value in node.args.values() for each in (value if isinstance(value, list) else [value])):
            # Stops text that the generator would copy as it is: nothing else reads it.
            if isinstance(each, str) and not (isinstance(node, _TEXTS) or _WORD.fullmatch(each)):
                raise _refused(f"{_shown(each)} cannot be used")
            if not isinstance(each, exp.Expression | str | bool | Enum | int | None):
                raise _refused(f"{_called(node)} cannot be used")
        match node:
            # Stops pg_advisory_lock, which outlives the transaction.
            case exp.Anonymous() if str(node.this).lower() not in _PLAIN:
                raise _refused(f"the function {_shown(str(node.this))} cannot be used")
            # Stops 1e131000, of as many digits.
            case exp.Literal() if not node.is_string and not _NUMBER.fullmatch(node.name):
                raise _refused(f"{_shown(node.name)} is not a number")
            # Stops UNION without an end: its table of the rows so far is in memory.
            case exp.With() if node.args.get("recursive"):
                raise _refused("WITH RECURSIVE cannot be used")
            # Stops pg_catalog.pg_roles, which any login may read.
            case exp.Table() | exp.Column() if node.args.get("db") or node.args.get("catalog"):
                raise _refused(f"{_shown(node.sql('postgres'))} cannot be read: name the view alone")
            # Stops char(10000000), which makes ten megabytes of a letter, and regclass, which looks up names.
            case exp.DataType() if not isinstance(node.this, Enum) or node.this.name not in _TYPES:
                raise _refused(f"a cast to {_shown(node.sql(dialect='postgres'))} is not possible")
            # Stops a row of a gigabyte: the server makes it at once, and this process receives it whole.
            case exp.Select() if len(node.expressions) > MOST_COLUMNS:
                raise CommandError(f"a SELECT has at most {MOST_COLUMNS} columns")
            # Stops two names that PostgreSQL cuts to the same one.
            case exp.Identifier():
                if len(node.name.encode()) > MOST_NAME:
                    raise CommandError(
                        f"the name {_shown(node.name)} is too long: a name has at most {MOST_NAME} bytes"
                    )
                if not node.quoted:
                    node.set("this", node.name.lower())
    # Stops a join of a thousand views: planning it takes half a gigabyte.
    if len(views) > MOST_TABLES:
        raise CommandError(f"a statement reads at most {MOST_TABLES} views")
    for node in nodes:
        if isinstance(node, exp.Alias | exp.TableAlias):
            named = [node.args["alias"]] if isinstance(node, exp.Alias) else node.args.get("columns") or ()
            names.update(each.name for each in named)
    for node in nodes:
        # Stops m.array_agg: PostgreSQL reads it as a call of that function on each row.
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) and node.name not in names:
            known = "".join(f"; {view} has {', '.join(VIEWS[view])}" for view in VIEWS if view in views)
            raise _refused(f"there is no column {_shown(node.name)}{known}")


def _called(node: exp.Expression) -> str:
    """Return the SQL name of a node, or its class in words."""
    if isinstance(node, exp.Func):
        return f"the function {_shown(node.sql_name().lower())}"
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).upper()


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:59]}…"


def _bounded(tree: exp.Expression, schema: str) -> exp.Expression:
    """Return a tree that reads only the views, cannot grow without limit, and checks the time."""

    def quoted(name: str) -> exp.Identifier:
        return exp.to_identifier(name, quoted=True)

    def call(function: str, value: exp.Expression) -> exp.Expression:
        return exp.Anonymous(this=f'"{schema}".{function}', expressions=[value.copy()])

    # Stops `substring(content FROM '(a*)*b')`, a regular expression: `substr` has no such form. A column keeps the text
    # of the call as its name, so that `query_db` can explain how to read on.
    for part in list(tree.find_all(exp.Substring)):
        parts = [part.args[each] for each in ("this", "start", "length") if part.args.get(each)]
        text = f"substr({', '.join(each.sql(_POSTGRES, normalize_functions=False) for each in parts)})"
        whole = [exp.Cast(this=each, to=exp.DataType.build("int")) for each in parts[1:]]
        substr: exp.Expression = exp.Anonymous(this="substr", expressions=[parts[0], *whole])
        if isinstance(part.parent, exp.Select) and part.arg_key == "expressions" and len(text.encode()) <= MOST_NAME:
            substr = exp.Alias(this=substr, alias=quoted(text))
        part.replace(substr)
    # Stops a subquery called pg_class from opening the catalog's: no table has such a name, whatever is in scope.
    subqueries = {each.alias: quoted(f"with: {each.alias}") for each in tree.find_all(exp.CTE)}
    for table in list(tree.find_all(exp.Table)):
        if not table.alias:
            table.set("alias", exp.TableAlias(this=quoted(table.name)))
        if own := subqueries.get(table.name):
            table.set("this", own.copy())
        elif table.name in VIEWS:
            table.set("db", quoted(schema))
        else:
            raise _refused(f"{_shown(table.name or table.this.sql('postgres'))} cannot be read")
    # Stops `x + x + x + x` in subqueries of subqueries: PostgreSQL would substitute each x, and run out of memory
    # before it looks at the time. It works out by itself what is MATERIALIZED or has an OFFSET.
    for behind in tree.find_all(exp.CTE):
        behind.args["alias"].set("this", subqueries[behind.alias])
        behind.set("materialized", True)
    for subquery in tree.find_all(exp.Subquery):
        if isinstance(subquery.parent, exp.From | exp.Join | exp.Subquery):
            if isinstance(subquery.this, exp.Select | exp.SetOperation) and not subquery.this.args.get("offset"):
                subquery.this.set("offset", exp.Offset(expression=exp.Literal.number(0)))
            if not subquery.alias and not isinstance(subquery.parent, exp.Subquery):
                subquery.set("alias", exp.TableAlias(this=quoted("_")))  # required before PostgreSQL 16
    # Inner nodes come first: a replacement copies the current parts of its node.
    for node in reversed(list(tree.walk())):
        # Stops a text of a megabyte that is sought in another one, an hour without a look at the time.
        if sought := node.args.get(_SEARCHED.get(type(node), "")):
            node.set(_SEARCHED[type(node)], call("short", sought))
        # Stops texts that double in each subquery. `string_agg` is the schema's own, by the search path.
        if isinstance(node, exp.DPipe | exp.Concat | exp.ConcatWs | exp.Replace):
            node.replace(call("sized", node))
    return tree
