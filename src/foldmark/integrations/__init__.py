"""Foldmark inside other agent libraries, one folder for each. A folder is imported when it is used."""
