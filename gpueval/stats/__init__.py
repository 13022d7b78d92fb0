"""From cells to summaries."""
