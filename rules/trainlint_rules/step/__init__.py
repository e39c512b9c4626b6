"""Rules about the training step: waits for the device, printing, logging, work repeated in it (TL2)."""
