"""``delivery="direct"``: a producer delivers what it has committed itself, by a lane."""
