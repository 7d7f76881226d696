"""The L1 cache of a tile."""

from rtl.l1.cache import L1Cache
from rtl.l1.geometry import L1Geometry
from rtl.l1.ports import AnswerLayout, RangeLayout, RequestLayout

__all__ = ["AnswerLayout", "L1Cache", "L1Geometry", "RangeLayout", "RequestLayout"]
