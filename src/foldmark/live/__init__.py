"""`foldmark live`: a gateway on the loopback interface between a running agent and its provider."""
