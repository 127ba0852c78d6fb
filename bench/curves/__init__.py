"""Figures as curves, in a file. Takes matplotlib: ``checkback-lab[plot]``."""
