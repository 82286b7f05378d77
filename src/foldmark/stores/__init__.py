"""The stores of events. Every store gives the same context for the same events [SPEC 3, L7]."""
