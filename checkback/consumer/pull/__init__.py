"""Reading at an offset that the application names, without a group."""
