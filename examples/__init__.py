"""Whole applications, small and runnable: see README.md."""
