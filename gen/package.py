"""Write a block to disk as others use it: Verilog, and what goes with it.

A package is a directory ``<block>-<hash of the configuration>`` with

=====================  ====================================================================
``jalapeno_<b>.sv``    SystemVerilog
``jalapeno_<b>.vlt``   waivers for Verilator's lint, each with its reason
``jalapeno_<b>.h``     configuration, registers and counters for C
``jalapeno_<b>.core``  description for FuseSoC, with a target that lints
``manifest.json``      all of the above as data, with a checksum of every file
=====================  ====================================================================
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from amaranth.lib import wiring

from gen import blocks, waivers
from gen.header import c_header
from gen.rtlil import Port
from gen.verilog import HASH_CONSTANT, PortField, VerilogDesign, emit
from rtl.config import ConfigError, TileConfig
from rtl.registers import HasRegisterMap

MANIFEST = "manifest.json"
_PORT_KEYS = tuple(field.name for field in fields(Port))
FORMAT = 1
"""Version of the manifest's structure."""


class PackageError(ValueError):
    """A package is not what its manifest says; the message is one sentence that says where."""


@runtime_checkable
class HasFacts(Protocol):
    """A component of which something was found out when it was made: plain JSON values."""

    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Package:
    """A block on disk.

    Attributes
    ----------
    directory
        Where it is.
    manifest
        The contents of its manifest.
    """

    directory: Path
    manifest: Mapping[str, Any]

    @property
    def config(self) -> TileConfig:
        """Configuration it was generated from."""
        return TileConfig.from_dict(self.manifest["configuration"])

    @property
    def verilog(self) -> Path:
        """Its Verilog file."""
        return self.directory / f"{self.manifest['top']}.sv"

    @property
    def design(self) -> VerilogDesign:
        """Its Verilog, without the fields of structured ports."""
        plain = ({key: port[key] for key in _PORT_KEYS} for port in self.manifest["ports"])
        return VerilogDesign(
            top=self.manifest["top"],
            text=self.verilog.read_text(),
            modules=tuple(self.manifest["modules"]),
            ports=tuple(Port(**port) for port in plain),
            layouts={},
            config=self.config,
        )


def generate(block: str, config: TileConfig, out_dir: Path = Path("build")) -> Package:
    """Generate a block and write its package into ``out_dir/<block>-<hash>``.

    Raises
    ------
    UnknownName
        There is no such block.
    EmissionError
        The block cannot become Verilog.
    OSError
        A file cannot be written.
    """
    return write(block, blocks.find(block).build(config), config, out_dir)


def write(name: str, component: wiring.Component, config: TileConfig, out_dir: Path) -> Package:
    """Write the package of any component under a name of its own; see `generate`.

    Registers and counters are described if the component has a `register_map`, and what else is to
    be known of it if it has `facts`. The directory appears all at once. If it exists already, its
    files are replaced one by one, the manifest last, and whatever else is in it stays.
    """
    register_map = component.register_map if isinstance(component, HasRegisterMap) else None
    described = register_map.to_dict() if register_map else {"registers": [], "counters": []}
    design = emit(component, name, config)
    files = {
        f"{design.top}.sv": design.text,
        f"{design.top}.vlt": waivers.vlt(),
        f"{design.top}.h": c_header(name, config, register_map),
        f"{design.top}.core": _fusesoc_core(name, design),
    }
    manifest = {
        "format": FORMAT,
        "generator": f"jalapeno-rtl {_version()}",
        "block": name,
        "top": design.top,
        "hash": config.hash,
        "configuration": config.to_dict(),
        "ports": [_port(port, design.layouts) for port in design.ports],
        **described,
        **({"facts": component.facts} if isinstance(component, HasFacts) else {}),
        "modules": list(design.modules),
        "files": [{"name": file, "sha256": _sha256(text)} for file, text in files.items()],
    }
    files[MANIFEST] = json.dumps(manifest, indent=2) + "\n"
    directory = out_dir / f"{name}-{config.hash}"
    _place(files, directory)
    return Package(directory, manifest)


def read(directory: Path) -> Package:
    """Read a package and make sure that it is what its manifest says.

    Raises
    ------
    PackageError
        A file is missing or has changed, or configuration, hash and Verilog do not belong together.
    """
    try:
        manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        package = Package(directory, manifest)
        for file in manifest["files"]:
            text = (directory / file["name"]).read_text(encoding="utf-8")
            if _sha256(text) != file["sha256"]:
                raise PackageError(
                    f"{directory / file['name']} has changed since it was generated."
                )
        config_hash = package.config.hash
        stamped = f"{HASH_CONSTANT} = {4 * len(config_hash)}'h{config_hash};"
        if config_hash != manifest["hash"] or stamped not in package.verilog.read_text():
            raise PackageError(f"{directory} mixes configurations; generate it again.")
    except OSError as error:
        raise PackageError(f"{error.filename} cannot be read: {error.strerror}.") from None
    except (json.JSONDecodeError, KeyError, TypeError, ConfigError):
        raise PackageError(f"{directory / MANIFEST} is no manifest of this version.") from None
    return package


def _place(files: Mapping[str, str], directory: Path) -> None:
    """Write `files` into `directory` so that no reader ever sees half a file."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".new-") as parent:
        new = Path(parent) / directory.name
        new.mkdir()
        for name, text in files.items():
            (new / name).write_text(text, encoding="utf-8", newline="\n")
        try:
            new.rename(directory)
        except OSError:
            # It exists. Without a manifest it is no package until all files belong together again.
            (directory / MANIFEST).unlink(missing_ok=True)
            for name in files:
                os.replace(new / name, directory / name)


def _port(port: Port, layouts: Mapping[str, tuple[PortField, ...]]) -> dict[str, Any]:
    parts = [asdict(part) for part in layouts.get(port.name, ())]
    return asdict(port) | ({"fields": parts} if parts else {})


def _fusesoc_core(name: str, design: VerilogDesign) -> str:
    """Return the description for FuseSoC; the hash in the name lets configurations coexist."""
    return f"""\
CAPI=2:
name: jalapeno:rtl:{name}_{design.config.hash}:{_version()}
description: Block {name} of Jalapeno RTL, configuration {design.config.hash}

filesets:
  rtl:
    files:
      - {design.top}.sv: {{file_type: systemVerilogSource}}
  waivers:
    files:
      - {design.top}.vlt: {{file_type: vlt}}

targets:
  default:
    filesets: [rtl]
    toplevel: {design.top}
  lint:
    filesets: [waivers, rtl]
    toplevel: {design.top}
    flow: lint
    flow_options:
      tool: verilator
      verilator_options: [-Wall]
"""


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _version() -> str:
    return importlib.metadata.version("jalapeno-rtl")
