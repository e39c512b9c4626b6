"""Rules about checkpoints (TL6)."""
