"""The core: what a tile is told to do, one instruction after the other."""
