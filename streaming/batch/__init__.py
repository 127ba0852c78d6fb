"""One batch: its types, and what its tasks are told and tell."""
