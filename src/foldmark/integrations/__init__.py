"""Foldmark inside of other people's agents: one module for each library, imported when it is used."""
