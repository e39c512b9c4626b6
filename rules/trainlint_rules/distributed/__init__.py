"""Rules about training on several devices (TL3)."""
