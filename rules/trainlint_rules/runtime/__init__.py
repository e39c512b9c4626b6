"""Rules about a run rather than about code (TL9): the probe reports what they find in the measurements."""
