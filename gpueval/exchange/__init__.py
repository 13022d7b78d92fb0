"""Results that leave for other tools, and those of other tools that come in."""
