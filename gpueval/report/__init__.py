"""Summaries shown and decided on: terminal, Markdown, gate."""
