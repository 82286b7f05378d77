"""The allowed parts of a model's statement: nodes of the parser's tree, functions, types, names."""

import re
from typing import Any

from sqlglot import exp

from foldmark.core.ports import VIEWS

_QUERY = "with_ order limit offset"

NODES: dict[type[exp.Expression], str] = {
    exp.Select: f"{_QUERY} expressions distinct from_ joins where group having windows",
    exp.Union: f"{_QUERY} this expression distinct",
    exp.Intersect: f"{_QUERY} this expression distinct",
    exp.Except: f"{_QUERY} this expression distinct",
    exp.Subquery: f"{_QUERY} this alias joins",
    exp.With: "expressions",
    exp.CTE: "this alias materialized",
    exp.TableAlias: "this columns",
    exp.From: "this",
    exp.Table: "this alias joins",
    exp.Join: "this on using side kind method",
    exp.Where: "this",
    exp.Group: "expressions",
    exp.Having: "this",
    exp.Order: "this expressions",
    exp.Ordered: "this desc nulls_first",
    exp.Limit: "expression",
    exp.Offset: "expression",
    exp.Distinct: "expressions on",
    exp.Window: "this partition_by order spec alias over",
    exp.WindowSpec: "kind start start_side end end_side",
    exp.Filter: "this expression",
    exp.Alias: "this alias",
    exp.Column: "this table",
    exp.Identifier: "this quoted",
    exp.Star: "",
    exp.Literal: "this is_string",
    exp.Boolean: "this",
    exp.Null: "",
    exp.Var: "this",
    exp.Paren: "this",
    exp.Tuple: "expressions",
    exp.Case: "this ifs default",
    exp.If: "this true false",
    exp.And: "this expression",
    exp.Or: "this expression",
    exp.Not: "this",
    exp.EQ: "this expression",
    exp.NEQ: "this expression",
    exp.GT: "this expression",
    exp.GTE: "this expression",
    exp.LT: "this expression",
    exp.LTE: "this expression",
    exp.NullSafeEQ: "this expression",
    exp.NullSafeNEQ: "this expression",
    exp.Is: "this expression negate",
    exp.In: "this expressions query",
    exp.Between: "this low high",
    exp.Exists: "this",
    exp.Like: "this expression negate",
    exp.ILike: "this expression negate",
    exp.Escape: "this expression",
    exp.Add: "this expression",
    exp.Sub: "this expression",
    exp.Mul: "this expression",
    exp.Div: "this expression typed safe",
    exp.Mod: "this expression",
    exp.Neg: "this",
    exp.DPipe: "this expression safe",
    exp.Cast: "this to",
    exp.DataType: "this expressions nested",
    exp.DataTypeParam: "this",
    exp.Interval: "this unit",
    exp.AtTimeZone: "this zone",
    exp.JSONExtract: "this expression only_json_types",
    exp.JSONExtractScalar: "this expression only_json_types",
    exp.JSONPath: "expressions",
    exp.JSONPathRoot: "",
    exp.JSONPathKey: "this",
    exp.JSONPathSubscript: "this",
}
"""The allowed nodes of a tree, with their allowed parts."""

CALLS: dict[type[exp.Expression], tuple[str, str]] = {
    exp.Abs: ("abs", "this"),
    exp.Avg: ("avg", "this"),
    exp.Ceil: ("ceil", "this"),
    exp.Coalesce: ("coalesce", "this expressions"),
    exp.Concat: ("concat", "expressions safe coalesce"),
    exp.ConcatWs: ("concat_ws", "expressions safe coalesce flatten"),
    exp.Count: ("count", "this expressions big_int"),
    exp.CumeDist: ("cume_dist", ""),
    exp.CurrentDate: ("current_date", ""),
    exp.CurrentTimestamp: ("now", ""),
    exp.DenseRank: ("dense_rank", ""),
    exp.Extract: ("extract", "this expression"),
    exp.FirstValue: ("first_value", "this"),
    exp.Floor: ("floor", "this"),
    exp.Greatest: ("greatest", "this expressions ignore_nulls"),
    exp.GroupConcat: ("string_agg", "this separator"),
    exp.Lag: ("lag", "this offset default"),
    exp.LastValue: ("last_value", "this"),
    exp.Lead: ("lead", "this offset default"),
    exp.Least: ("least", "this expressions ignore_nulls"),
    exp.Left: ("left", "this expression"),
    exp.Length: ("length", "this"),
    exp.LogicalAnd: ("bool_and", "this"),
    exp.LogicalOr: ("bool_or", "this"),
    exp.Lower: ("lower", "this"),
    exp.Max: ("max", "this"),
    exp.Min: ("min", "this"),
    exp.NthValue: ("nth_value", "this offset"),
    exp.Ntile: ("ntile", "this"),
    exp.Nullif: ("nullif", "this expression"),
    exp.PercentRank: ("percent_rank", ""),
    exp.Rank: ("rank", ""),
    exp.Replace: ("replace", "this expression replacement"),
    exp.Reverse: ("reverse", "this"),
    exp.Right: ("right", "this expression"),
    exp.Round: ("round", "this decimals"),
    exp.RowNumber: ("row_number", ""),
    exp.Sign: ("sign", "this"),
    exp.SplitPart: ("split_part", "this delimiter part_index"),
    exp.StartsWith: ("starts_with", "this expression"),
    exp.StrPosition: ("strpos", "this substr"),
    exp.Substring: ("substr", "this start length"),
    exp.Sum: ("sum", "this"),
    exp.TimestampTrunc: ("date_trunc", "this unit"),
    exp.Trim: ("trim", "this expression position"),
    exp.Upper: ("upper", "this"),
}
"""The allowed functions with nodes of their own, with their names and their allowed parts."""

PLAIN = frozenset({"json_array_length", "json_typeof", "jsonb_array_length", "jsonb_typeof", "octet_length"})
"""The other allowed functions, which have no node of their own."""

TYPES = frozenset(
    (
        *("BIGINT", "BOOLEAN", "DATE", "DECIMAL", "DOUBLE", "FLOAT", "INT", "INTERVAL", "JSON", "JSONB", "SMALLINT"),
        *("TEXT", "TIME", "TIMESTAMP", "TIMESTAMPTZ", "VARCHAR"),
    )
)
"""The types that a value may be cast to; none that looks a name up (`regclass`) or pads (`char`)."""

NAMED = (exp.Identifier, exp.Literal, exp.Anonymous, exp.JSONPathKey)
"""Nodes that hold any text; their contents are checked one by one."""

SEARCHED: dict[type[Any], str] = {
    exp.Replace: "expression",
    exp.SplitPart: "delimiter",
    exp.StrPosition: "substr",
    exp.StartsWith: "expression",
    exp.Trim: "expression",
}

FUNCTIONS = frozenset({name for name, _ in CALLS.values()} | PLAIN)
PARTS = {
    node: frozenset(parts.split())
    for node, parts in (*NODES.items(), *((node, parts) for node, (_, parts) in CALLS.items()))
}
COLUMNS = frozenset({column for columns in VIEWS.values() for column in columns}) | FUNCTIONS | {"case"}
NUMBER = re.compile(r"\d{1,1000}(?:\.\d{0,1000})?(?:[eE][+-]?\d{1,4})?|\.\d{1,1000}")
WORD = re.compile(r"[A-Za-z_]{1,40}(?: [A-Za-z_]{1,40})?")
