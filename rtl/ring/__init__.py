"""The collective ring: what all tiles do together."""

from rtl.ring.engine import RingEngine
from rtl.ring.standalone import StandaloneRing
from rtl.ring.unit import RingUnit

__all__ = ["RingEngine", "RingUnit", "StandaloneRing"]
