"""The query's checkpoint folder and the progress offsets that belong to it."""
