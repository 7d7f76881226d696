"""The collective ring: what all tiles do together."""

from rtl.ring.engine import RingEngine
from rtl.ring.standalone import StandaloneRing

__all__ = ["RingEngine", "StandaloneRing"]
