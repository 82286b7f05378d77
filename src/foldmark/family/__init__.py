"""Agents among themselves: the tree they form, their mail, and who runs them at the moment [SPEC 2, 6]."""
