"""Gemini's generateContent, directly and through Code Assist: bodies, streams, refusals."""
