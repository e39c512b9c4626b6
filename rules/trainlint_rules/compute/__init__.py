"""Rules about computing: precision and debug modes (TL4)."""
