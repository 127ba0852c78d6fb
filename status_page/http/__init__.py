"""The server, who may sign in, and what is refused."""
