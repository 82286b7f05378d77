"""Gemini's generateContent, directly and through Code Assist: `contents` writes and reads bodies."""
