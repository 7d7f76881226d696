"""A first estimate of cycles, made from programs before the hardware is there.

A program runs on the interpreter, which says what every instruction does (`trace`); then a model
of the tile replays that trace cycle by cycle (`machine`), with every delay a named number
(`Latencies`). The bits are the interpreter's; the model only says when.
"""

from sim.estimate.latencies import Latencies, Options
from sim.estimate.machine import Result, replay
from sim.estimate.trace import Op, record

__all__ = ["Latencies", "Op", "Options", "Result", "record", "replay"]
