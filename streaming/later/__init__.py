"""Messages that were sent with a delay or are to be tried again later, moved to their topics when it is time."""
