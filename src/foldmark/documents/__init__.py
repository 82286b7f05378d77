"""Conversations as documents: Markdown for a person, JSON for a program, and JSON back into a database [SPEC 9].

Read `past` first: the events of a conversation in order, with everything that it inherited. `markdown` and
`json_export` write them; `layout` defines the JSON. `json_import` reads it back, checks it as a file of a stranger
(`checking`, `references`), and gives all ids anew. `exporting` decides between the formats and writes the file.
"""
