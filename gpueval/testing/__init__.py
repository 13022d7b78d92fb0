"""RAG samples in pytest: judged in one batch, asserted one by one."""
