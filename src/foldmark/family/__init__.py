"""Relations between agents: the tree they form, their mail, and who runs them [SPEC 2, 6]."""
