"""The number of tokens of a request, and the known figures of the models that take it [SPEC 5.4]."""
