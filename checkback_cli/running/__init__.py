"""Commands that run the job and the check service, show the settings, and make topics."""
