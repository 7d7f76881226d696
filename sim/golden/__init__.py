"""The golden model's numerics: what every bit of the hardware's arithmetic must be."""

from gen.mx import MXTensor, from_gguf, from_gptoss, to_gptoss
from gen.quantise import quantise
from rtl.formats import BLOCK, Format, ScaleRule
from sim.golden import fp32
from sim.golden.formats import dequantise, element_values, fold_scale, scale_values
from sim.golden.window import ACC_BITS, Window, anchor, block_dots, window_matmul

__all__ = [
    "ACC_BITS",
    "BLOCK",
    "Format",
    "MXTensor",
    "ScaleRule",
    "Window",
    "anchor",
    "block_dots",
    "dequantise",
    "element_values",
    "fold_scale",
    "fp32",
    "from_gguf",
    "from_gptoss",
    "quantise",
    "scale_values",
    "to_gptoss",
    "window_matmul",
]
