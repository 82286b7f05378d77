"""How many tokens a request is, and what is known of the models that take it [SPEC 5.4]."""
