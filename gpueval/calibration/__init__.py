"""The judge's quality, measured on human labels, and what follows from it: probabilities, thresholds, a verdict."""
