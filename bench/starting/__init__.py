"""How long a job takes until it works: from its start, and from the death of the one before."""
