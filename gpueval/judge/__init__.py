"""From samples to judgments: prompts, plan, parse, store, rounds."""
