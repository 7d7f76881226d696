"""The slice of HBM a tile owns: its timing, its bus, its error correction."""
