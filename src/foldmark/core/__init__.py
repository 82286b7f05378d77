"""The kernel of Foldmark: recorded events, visible messages and sent requests, as pure functions of values.

Read in this order. `events` defines the recorded facts and the operations among them, `segments` the algebra of ranges
of ids, `replay` computes the visible ranges from operations, and `turns` decides which messages belong together.
`codec` turns events into text and back. `ports` holds the protocols that a store and a provider implement; `agents`,
`records`, `search` and `request` hold the values in these protocols. `config` has the settings of an agent. `assembly/`
turns the visible messages into a prompt.

Nothing here performs input or output, and nothing reads a clock, randomness or the environment: times and ids come in
as arguments. So the same log always gives the same context and the same bytes, and every law can be tested without a
database.
"""
