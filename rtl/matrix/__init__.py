"""The macro-instruction `matrix`: the matrix engine between the registers of a tile."""

from rtl.matrix.standalone import StandaloneMatrixUnit
from rtl.matrix.unit import MatrixUnit

__all__ = ["MatrixUnit", "StandaloneMatrixUnit"]
