"""The vector unit: everything in attention and mixture of experts that is not a matrix product."""

from rtl.vec.engine import VectorEngine
from rtl.vec.geometry import VectorGeometry
from rtl.vec.operation import VectorOperationLayout
from rtl.vec.unit import VectorUnit

__all__ = [
    "VectorEngine",
    "VectorGeometry",
    "VectorOperationLayout",
    "VectorUnit",
]
