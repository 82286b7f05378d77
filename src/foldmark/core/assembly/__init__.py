"""From messages to a prompt: the view, the window, the layers; what is recorded of a request, and what a cache holds.

Pure functions and values, as everywhere in the core.
"""
