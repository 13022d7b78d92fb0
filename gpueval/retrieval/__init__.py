"""Retrieval: what a retriever returned, measured against relevance judgments."""
