"""Foldmark inside of other agent libraries: one folder for each, imported when it is used."""
