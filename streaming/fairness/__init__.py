"""What keeps one producer group from taking the room of all."""
