"""Rules about memory that is traded for time (TL5)."""
