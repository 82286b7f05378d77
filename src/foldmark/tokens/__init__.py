"""The number of tokens of a request, and the known figures of models [SPEC 5.4]."""
