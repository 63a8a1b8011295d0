"""Training and inference epochs, phase by phase: what ``kind: training`` measures."""
