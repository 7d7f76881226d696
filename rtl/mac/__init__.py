"""The matrix engine: exact MX dot products of streamed weights and stationary activations."""

from rtl.mac.engine import MatrixEngine
from rtl.mac.geometry import MacGeometry
from rtl.mac.operand_stream import OperandLayout, OperandStream
from rtl.mac.operation import (
    ActivationLayout,
    ActivationRequestLayout,
    FetchLayout,
    OperationLayout,
    ResultLayout,
)

__all__ = [
    "ActivationLayout",
    "ActivationRequestLayout",
    "FetchLayout",
    "MacGeometry",
    "MatrixEngine",
    "OperandLayout",
    "OperandStream",
    "OperationLayout",
    "ResultLayout",
]
