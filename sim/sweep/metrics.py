"""What is measured of a point: the columns of the table of results, with units and meanings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """One number of a point.

    Attributes
    ----------
    name
        Column of the table.
    unit
        Unit; empty for a ratio or a count.
    what
        What it is, as a phrase.
    best
        Which end is better, where one is.
    """

    name: str
    unit: str
    what: str
    best: Literal["low", "high", ""] = ""

    @property
    def title(self) -> str:
        """Name and unit, as an axis says them."""
        if not self.unit:
            return self.name
        suffix = f"_{self.unit.lower().replace('µm²', 'um2')}"  # of names such as energy_pj
        return f"{self.name.removesuffix(suffix).replace('_', ' ')} [{self.unit}]"


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in [
            Metric("cycles", "cycles", "clock cycles of the workload, on the RTL", "low"),
            Metric("least_cycles", "cycles", "what memory, array or links allow at best"),
            Metric("roofline", "", "least_cycles / cycles", "high"),
            Metric("throughput", "per million cycles", "work / cycles; work_unit says of what",
                   "high"),
            Metric("work", "", "tokens, rows, elements, beats or bytes that were processed"),
            Metric("operations", "", "multiply-accumulates that are useful, times 4x4-bit planes"),
            Metric("needed_bytes", "bytes", "what must move from memory, each byte once"),
            Metric("peak_operations", "per cycle", "what the array can do: 32 P L"),
            Metric("peak_bytes", "per cycle", "what memory can bring: 16 P"),
            Metric("compared", "", "values that were compared with what is expected; all agreed"),
            Metric("cells", "gates", "two-input gates and inverters, memories apart", "low"),
            Metric("flops", "bits", "flip-flops", "low"),
            Metric("memory_bits", "bits", "of memories that were kept apart", "low"),
            Metric("depth", "gates", "on the longest path", "low"),
            Metric("lut4", "LUT4", "of an ECP5, carries included", "low"),
            Metric("area_um2", "µm²", "with the cells of the Liberty file, memories apart", "low"),
            Metric("frequency_mhz", "MHz", "estimated by nextpnr-ecp5 after placing and routing",
                   "high"),
            Metric("energy_pj", "pJ", "estimated from events and a table of energies", "low"),
            Metric("verilog_bytes", "bytes", "length of the Verilog"),
            Metric("seconds", "s", "that measuring the point took, on the machine it ran on"),
        ]
    }
)  # fmt: skip
"""Every metric by name."""
