"""Who may write: the claim, the fence, the clock, and what is made sure of around each batch."""
