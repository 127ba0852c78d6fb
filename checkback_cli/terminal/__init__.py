"""How commands print, and the options that several of them have."""
