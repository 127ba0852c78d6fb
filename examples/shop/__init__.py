"""Paying an order must reach logistics, points and cart: ``python -m examples.shop``."""
