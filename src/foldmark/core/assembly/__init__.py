"""From messages to a prompt: the view, the window, the layers; records of requests, and a model of prompt caches.

Pure functions and values, as everywhere in the core.
"""
