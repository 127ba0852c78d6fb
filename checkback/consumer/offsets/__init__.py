"""Which messages of a partition are done, and what the group stores of it."""
