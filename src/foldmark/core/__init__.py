"""The pure core: events, the segment algebra, replay, turns.

Nothing below this package performs input or output, and nothing reads a clock, randomness or the environment:
times and ids come in as arguments.
"""
