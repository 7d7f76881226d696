"""Generated blocks, cached: points that differ only in what they run share one."""

from __future__ import annotations

from pathlib import Path

from gen import package
from gen.package import Package
from rtl.config import TileConfig
from sim import cache
from sim.sweep.versions import tools


def generated(block: str, config: TileConfig) -> Package:
    """Return the package of a block; it is generated once for all processes of this user.

    Raises
    ------
    EmissionError
        The block cannot become Verilog.
    """
    name = f"{block}-{config.hash}"
    key = cache.content_key([block, config.to_json(), tools()])

    def make(folder: Path) -> None:
        package.generate(block, config, folder)

    path, _ = cache.entry("package", key, name, make)
    return package.read(path)
