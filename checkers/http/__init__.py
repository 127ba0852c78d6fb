"""The check service's HTTP client, and the addresses it may connect to."""
