"""From scores to decisions: a run held against a policy, and against other runs."""
