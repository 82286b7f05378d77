"""Pieces of other programs' JSON: what they say, and cuts in place that leave every other byte."""
