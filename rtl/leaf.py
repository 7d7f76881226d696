"""Repeated hardware that is emitted once and instantiated many times.

Amaranth emits one Verilog module per *instance*, so an array of a thousand multiplier columns
becomes a thousand copies of the same text, which every later tool then compiles a thousand times.
A `Leaf` is a component with a name of its own. Under an emitting platform (`gen.verilog.Emission`)
it becomes an `Instance` of the module of that name, and the module itself is emitted once;
everywhere else, for example in Amaranth's simulator, it is an ordinary submodule.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from amaranth.hdl import Instance, Module
from amaranth.lib import wiring


@runtime_checkable
class LeafEmitter(Protocol):
    """A platform that emits leaves as modules of their own."""

    def instantiate(self, leaf: Leaf) -> Instance | None:
        """Return an instance of `leaf`'s module, or ``None`` to elaborate `leaf` in place."""


class Leaf(wiring.Component):
    """A component that is emitted as one named module, however often it is used.

    Subclasses define `module_name` and `build`. Two leaves with the same `module_name` **must**
    build the same hardware: the name is the key. Attributes that change the hardware therefore
    belong in it.
    """

    @property
    def module_name(self) -> str:
        """Verilog module name, unique to the class and everything that changes its hardware."""
        raise TypeError(f"{type(self).__name__} has no module_name")

    def build(self, platform: Any) -> Module:
        """Return the hardware of this leaf (what `elaborate` is to an ordinary component)."""
        raise TypeError(f"{type(self).__name__} has no hardware")

    def elaborate(self, platform: Any) -> Module | Instance:
        """Return an instance of the shared module, or the hardware itself."""
        if isinstance(platform, LeafEmitter):
            instance = platform.instantiate(self)
            if instance is not None:
                return instance
        return self.build(platform)
