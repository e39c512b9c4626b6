"""Rules about the files and comments that the tool itself reads (TL0)."""
