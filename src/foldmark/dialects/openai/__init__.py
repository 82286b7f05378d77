"""OpenAI's Chat Completions and Responses: two dialects whose messages are recorded alike."""
