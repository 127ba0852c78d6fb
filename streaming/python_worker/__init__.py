"""Spark's Python workers: what each does once, and the proof that its input is whole."""
