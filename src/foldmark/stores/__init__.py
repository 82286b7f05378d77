"""Where events are kept. Every store gives the same context for the same events [SPEC 3, L7]."""
