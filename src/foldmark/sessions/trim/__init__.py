"""Cut what tools returned and what became stale; every other byte stays [SPEC 8, S4]."""
