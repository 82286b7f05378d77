"""Agents at work: one turn from the user's text to idle."""
