"""Rules about data supply: tokenizing, loaders, transfers (TL1)."""
