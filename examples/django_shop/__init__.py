"""A shop in Django: one model, one view, and a message for each paid order."""
