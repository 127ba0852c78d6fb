"""Migrations of the shop's own table."""
