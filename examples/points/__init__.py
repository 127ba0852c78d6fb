"""The shop's paid orders give points, in a database of its own, once each: ``python -m examples.points``."""
