"""The kernel of Foldmark: what is recorded, what is visible, and what is sent, as pure functions of values.

Read in this order. `events` defines the recorded facts and the operations among them, `segments` the algebra of ranges
of ids, `replay` computes from operations which ranges are visible, and `turns` says which messages belong together.
`codec` turns events into text and back. `ports` holds the protocols that a store and a provider implement; `agents`,
`records`, `search` and `request` hold the values in them. `config` has the settings of an agent. `assembly/` leads from
the visible messages to a prompt.

Nothing here performs input or output, and nothing reads a clock, randomness or the environment: times and ids come in
as arguments. So the same log always gives the same context and the same bytes, and every law can be tested without a
database.
"""
