"""Each module a command: Django finds them by their place."""
