"""The page of all figures that the design sets a target for.

``jalapeno bench --all --json > docs/figures.json`` measures them, and
``python -m sim.bench.page docs/figures.json > docs/figures.md`` writes the page: the same bytes for
the same figures.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sim.figures import format_number

PROMISED: Sequence[tuple[str, str, str, str]] = (
    ("hbm.sequential.hbm3-6400", "sequential read, refresh on, fraction of peak", "≥ 0.98",
     "Ramulator 2: 0.924; limit 1.0"),
    ("hbm.sequential.hbm4-8000", "the same", "≥ 0.97", "0.825 to 0.890"),
    ("hbm.random64", "random reads of 64 bytes", "≥ 0.60", "0.523; limit 0.667"),
    ("hbm.mix64", "reads and writes 2:1, interleaved by 64 bytes", "≥ 0.75", "0.567"),
    ("hbm.mix4k", "interleaved by 4 KiB", "≥ 0.85", "0.768"),
    ("hbm.idle_extra", "idle latency beyond what timing asks for", "≤ 4", ""),
    ("mac.gemm", "512x512, every lane busy: beats per cycle", "≥ 0.97",
     "0.97 to 0.99 of peak, published"),
    ("mac.gemv", "the same at batch 1", "≥ 0.97", "0.85, published FPGA GEMV"),
    ("mac.paired", "batch 1 from a full buffer: element beats per cycle", "≥ 1.9", "1"),
    ("mac.dot44_cells", "32-wide 4x4 dot product", "≤ 3,944", "3,945"),
    ("mac.dot_cells", "32-wide dot product of all four modes", "≤ 6,000",
     "7,643 for a plain multiplier tree"),
    ("mac.accumulator_cells", "shift, add and a 48-bit register", "≤ 900",
     "FP32 1,769; window 737 to 852"),
    ("vec.softmax", "4 rows of 512 scores: lane cycles per element", "≤ 2.2", ""),
    ("ring.allgather.4KiB", "bound / cycles, the worst of 2 to 16 tiles", "≥ 0.90",
     "0.82 to 0.95, published"),
    ("ring.allgather.64KiB", "the same for 64 KiB", "≥ 0.97", "0.82 to 0.95, published"),
    ("ring.barrier", "cycles from the last arrival to the last release, beyond N", "≤ 8", ""),
    ("noc.cycles_per_hop", "at zero load", "≤ 1", "1 best, 2 typical"),
    ("noc.uniform4x4", "accepted flits per tile and cycle at full load", "≥ 0.70",
     "0.640, best open peer"),
    ("noc.min_node", "weakest tile of its fair share, worst pattern", "≥ 0.7", "0.02 to 0.8"),
    ("noc.router_cells", "router of five ports, 64-bit flits, four slots", "≤ 8,500",
     "7,563 without fairness"),
    ("tile.decode_roofline", "a token at batch 1: bytes that must move / (cycles x peak)",
     "≥ 0.85, then 0.95", "0.06 to 0.22, published Jalapeño points"),
    ("tile.prefill_peak", "a prompt of 64 tokens: useful work / (cycles x full array)", "≥ 0.80",
     "0.14 to 0.26, published"),
    ("chip.decode_roofline", "the same on 2x2 tiles", "≥ 0.85", "0.06 to 0.22, published"),
    ("chip.prefill_peak", "the same on 2x2 tiles", "≥ 0.80", "0.14 to 0.26, published"),
    ("model.error", "cycle model against RTL, worst case", "≤ 5 %",
     "5 %, claimed for the real chip's simulator"),
)  # fmt: skip
"""Name, meaning, target and anchor of every figure of the design."""


def page(measured: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the page.

    Parameters
    ----------
    measured
        What `jalapeno bench --all --json` printed. A bench may have a ``provenance``: where its
        figures come from, if not from that very run.
    """
    figures = {
        figure["name"]: (figure, part)
        for part in measured["benches"]
        for figure in part.get("figures", [])
    }
    yield "# Every figure against its target"
    yield ""
    yield (
        "Written by `python -m sim.bench.page docs/figures.json > docs/figures.md` from figures as "
        "`jalapeno bench --all --json` prints them; do not edit. Where they come from is said "
        "below. Targets are the project's own; anchors are what others published or a calculation "
        "gives."
    )
    yield ""
    yield f"Configuration `{measured['hash']}`. {_tools(measured)}"
    yield ""
    yield "| figure | measured | target | met | anchor | what it is |"
    yield "|---|--:|---|---|---|---|"
    for name, what, target, anchor in PROMISED:
        value, met = "not measured", ""
        if name in figures:
            figure, _ = figures[name]
            value = f"{format_number(figure['value'])} {figure['unit']}".strip()
            met = "yes" if figure["met"] else "**no**"
        yield f"| `{name}` | {value} | {target} | {met} | {anchor} | {what} |"
    yield ""
    yield from _provenance(measured)
    yield from _workloads(figures)


def _tools(measured: Mapping[str, Any]) -> str:
    tools = measured.get("tools", {})
    return "Tools: " + ", ".join(f"{name} {version}" for name, version in tools.items()) + "."


def _provenance(measured: Mapping[str, Any]) -> Iterator[str]:
    yield "## Where they come from"
    yield ""
    for part in measured["benches"]:
        if "error" in part:
            yield f"- `{part['bench']}` did not run: {part['error']}"
        else:
            source = part.get("provenance", "measured by this run of `jalapeno bench --all`")
            yield f"- `{part['bench']}`: {source}."
    missing = [name for name, *_ in PROMISED if name.startswith(("chip.", "model."))]
    yield f"- {', '.join(f'`{name}`' for name in missing)}: there is no bench yet."
    yield ""


def _workloads(figures: Mapping[str, tuple[Mapping[str, Any], Any]]) -> Iterator[str]:
    yield "## What ran"
    yield ""
    yield "| figure | workload |"
    yield "|---|---|"
    for name, *_ in PROMISED:
        if name in figures and figures[name][0]["workload"]:
            yield f"| `{name}` | {figures[name][0]['workload']} |"


def main() -> None:
    """Write the page of a file to standard output."""
    measured = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    print("\n".join(page(measured)))


if __name__ == "__main__":
    main()
