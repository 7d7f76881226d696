"""Put an HBM device and a timing checker on every pseudo-channel of a generated design.

>>> harness = attach(emit(controller, "hbm", config), rows=1024)         # doctest: +SKIP
>>> verilator.build(harness.sources, harness.top, harness.ports)         # doctest: +SKIP

The new top module has every port of the design except its HBM buses, and the ``hbm_`` ports by
which `tb.hbm.HbmSlice` sets the timing, reaches into the memory and reads what the checkers saw.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gen.rtlil import Port
from gen.verilog import VerilogDesign
from rtl.hbm.interface import CHECK_BITS, COLUMNS, ColumnCommand, RowCommand
from rtl.hbm.timing import BURST, FIELD_BITS, FIELDS
from sim.hbm.beats import POISON_BEAT, UNWRITTEN_BEAT
from sim.hbm.rules import RULES

FOLDER = Path(__file__).parent

BEAT_BITS = 128 + CHECK_BITS
"""Bits of a beat in the device: {check, data}."""

ACTIONS = ("NONE", "LOAD", "DUMP", "FLIP", "PEEK", "CLEAR")
"""Actions of the device's backdoor, in the order of their codes."""

REPORT = {
    "violations": 32,
    "rule": 8,
    "bank": 8,
    "cycle": 32,
    "distance": 32,
    "required": 32,
    "broken": len(RULES),
}
"""What a checker reports, and widths, lowest first: how many violations, the first, which rules."""

TALLY = dict.fromkeys(("act", "pre", "prea", "refpb", "refab", "rd", "wr"), 32)
"""Commands that a checker counts, and widths, lowest first."""

CONTROLS = {
    "hbm_timing": FIELD_BITS * len(FIELDS),
    "hbm_fatal": 1,
    "hbm_backdoor_turn": 1,
    "hbm_backdoor_action": 3,
    "hbm_backdoor_channel": 8,
    "hbm_backdoor_first": 32,
    "hbm_backdoor_last": 32,
    "hbm_backdoor_beat": BEAT_BITS,
}
"""Inputs of the new top module, and widths."""

_BUS = {
    "row_command": "row__command",
    "row_bank": "row__bank",
    "row_row": "row__row",
    "column_command": "column__command",
    "column_bank": "column__bank",
    "column_column": "column__column",
    "write_data": "write__data",
    "write_enable": "write__enable",
    "write_check": "write__check",
    "read_valid": "read__valid",
    "read_data": "read__data",
    "read_check": "read__check",
}
_WATCHED = ("row_command", "row_bank", "row_row", "column_command", "column_bank")


@dataclass(frozen=True)
class Harness:
    """A design with its memory, ready to be built.

    Attributes
    ----------
    top
        Name of the top module.
    sources
        Verilog by file name.
    ports
        Ports of the top module.
    channels
        Pseudo-channels, each with a device and a checker.
    rows
        Rows of each bank that the devices hold.
    """

    top: str
    sources: Mapping[str, str]
    ports: tuple[str, ...]
    channels: int
    rows: int


def attach(design: VerilogDesign, *, rows: int) -> Harness:
    """Return `design` with devices and checkers on its HBM buses.

    Parameters
    ----------
    design
        Has ports of `rtl.hbm.interface.PseudoChannelSignature`: each output
        ``<bus>__row__command`` is a pseudo-channel, numbered in the order of the ports.
    rows
        Rows of each bank: 1024 make 16 MiB per pseudo-channel.
    """
    suffix = "__row__command"
    buses = [
        port.name.removesuffix(suffix)
        for port in design.ports
        if port.name.endswith(suffix) and port.direction == "output"
    ]
    if not buses:
        raise ValueError(f"{design.top} has no HBM bus.")
    inner = re.compile("|".join(f"{re.escape(bus)}__(row|column|write|read)__" for bus in buses))
    outer = [port for port in design.ports if not inner.match(port.name)]
    clocks = [Port(name, "input", 1) for name in ("clk", "rst")]
    outer = [port for port in clocks if port not in outer] + outer
    outer += [Port(name, "input", width) for name, width in CONTROLS.items()]
    outer += [
        Port("hbm_report", "output", len(buses) * sum(REPORT.values())),
        Port("hbm_tally", "output", len(buses) * sum(TALLY.values())),
        Port("hbm_backdoor_value", "output", len(buses) * BEAT_BITS),
    ]
    top = f"{design.top}_with_hbm"
    return Harness(
        top=top,
        sources={
            "hbm_package.sv": package(),
            "hbm_device.sv": (FOLDER / "device.sv").read_text(),
            "hbm_checker.sv": (FOLDER / "checker.sv").read_text(),
            f"{design.top}.sv": design.text,
            f"{top}.sv": _wrapper(top, design, outer, buses, rows),
        },
        ports=tuple(port.name for port in outer),
        channels=len(buses),
        rows=rows,
    )


def package() -> str:
    """Return the SystemVerilog package of device and checker."""
    rows = "".join(f"  localparam bit [2:0] ROW_{c.name} = {c.value};\n" for c in RowCommand)
    columns = "".join(
        f"  localparam bit [1:0] COLUMN_{c.name} = {c.value};\n" for c in ColumnCommand
    )
    rules = ", ".join(RULES)
    actions = ", ".join(f"ACTION_{name}" for name in ACTIONS)
    return f"""\
// Generated from rtl.hbm and sim.hbm; do not edit.
package hbm_package;
{rows}{columns}\
  localparam int COLUMNS = {COLUMNS};
  localparam longint BURST = {BURST};
  localparam bit [{BEAT_BITS - 1}:0] UNWRITTEN_BEAT = {BEAT_BITS}'h{UNWRITTEN_BEAT:x};
  localparam bit [{BEAT_BITS - 1}:0] POISON_BEAT = {BEAT_BITS}'h{POISON_BEAT:x};
  typedef enum bit [7:0] {{{rules}}} rule_t;
  typedef enum bit [2:0] {{{actions}}} action_t;
{_struct("timing_t", dict.fromkeys(FIELDS, FIELD_BITS))}
{_struct("report_t", REPORT)}
{_struct("tally_t", TALLY)}
endpackage
"""


def _struct(name: str, fields: Mapping[str, int]) -> str:
    """Return a packed structure, the first field lowest."""
    members = "".join(
        f"    logic [{width - 1}:0] {field};\n" for field, width in reversed(list(fields.items()))
    )
    return f"  typedef struct packed {{\n{members}  }} {name};"


def _wrapper(
    top: str, design: VerilogDesign, outer: Iterable[Port], buses: list[str], rows: int
) -> str:
    widths = {port.name: port.width for port in design.ports}
    ports = ",\n".join(f"  {p.direction} logic [{p.width - 1}:0] {p.name}" for p in outer)
    connections = ",\n".join(f"    .{name}({name})" for name in widths)
    wires = "".join(
        f"  logic [{widths[f'{bus}__{name}'] - 1}:0] {bus}__{name};\n"
        for bus in buses
        for name in _BUS.values()
    )
    channels = "".join(
        _channel(i, bus, rows, widths[f"{bus}__row__row"]) for i, bus in enumerate(buses)
    )
    return f"""\
module {top} import hbm_package::*; (
{ports}
);
{wires}
  {design.top} generated (
{connections}
  );

{channels}
endmodule
"""


def _channel(index: int, bus: str, rows: int, row_bits: int) -> str:
    parameters = f".ROWS({rows}), .ROW_BITS({row_bits})"
    watched = ", ".join(f".{name}({bus}__{_BUS[name]})" for name in _WATCHED)
    wires = ", ".join(f".{name}({bus}__{inner})" for name, inner in _BUS.items())
    backdoor = ", ".join(
        f".{name.removeprefix('hbm_')}({name})" for name in CONTROLS if "backdoor" in name
    ).replace("(hbm_backdoor_action)", "(action_t'(hbm_backdoor_action))")
    report, tally = sum(REPORT.values()), sum(TALLY.values())
    return f"""
  hbm_device #({parameters}) device{index} (
    .clk(clk), .rst(rst), .channel({index}), .timing(hbm_timing), {wires},
    {backdoor}, .backdoor_value(hbm_backdoor_value[{index * BEAT_BITS}+:{BEAT_BITS}])
  );
  hbm_checker #({parameters}) checker{index} (
    .clk(clk), .rst(rst), .channel({index}), .timing(hbm_timing), .fatal(hbm_fatal), {watched},
    .report(hbm_report[{index * report}+:{report}]), .tally(hbm_tally[{index * tally}+:{tally}])
  );
"""
