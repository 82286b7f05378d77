"""Cutting what tools returned, every other byte as it was [SPEC 8, S4]."""
