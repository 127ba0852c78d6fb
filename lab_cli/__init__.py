"""The commands of ``checkback-lab``: measuring, breaking."""
