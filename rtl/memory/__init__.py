"""The memory engine of a tile: between memory and registers."""

from rtl.memory.engine import MemoryEngine
from rtl.memory.geometry import MemoryGeometry
from rtl.memory.scalar import WordAccessLayout

__all__ = ["MemoryEngine", "MemoryGeometry", "WordAccessLayout"]
