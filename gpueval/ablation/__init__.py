"""Component ablation: the same questions with the system's documents, with the true ones, and with none."""
