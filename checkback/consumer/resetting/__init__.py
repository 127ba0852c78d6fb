"""Setting a group to other offsets, while it runs or not."""
