"""Commands for whoever is on call: what is stuck, why, and ending it."""
