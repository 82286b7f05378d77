"""OpenAI's Chat Completions (`chat`) and Responses (`responses`), two wires whose messages are recorded alike."""
