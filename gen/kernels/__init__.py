"""Programs for a tile: each kernel writes the instructions of one part of a model."""
