"""The check endpoint: answers checks, and announces itself."""
