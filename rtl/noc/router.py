"""A router of the mesh."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module
from amaranth.lib import data
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import Mesh
from rtl.leaf import Leaf
from rtl.noc.allocator import Allocator
from rtl.noc.buffer import InputBuffer
from rtl.noc.geometry import PAIRS, Side, inputs_of
from rtl.noc.link import COORDINATE_BITS, LinkSignature, pick
from rtl.noc.shares import SharesLayout, count_bits, shares

__all__ = ["PlaceLayout", "Router"]


class PlaceLayout(data.StructLayout):
    """What a router must know of where it is; it never changes.

    Fields
    ------
    x, y
        Its tile.
    shares
        How its outputs divide their time.
    """

    def __init__(self, bits: int) -> None:
        super().__init__({"x": COORDINATE_BITS, "y": COORDINATE_BITS, "shares": SharesLayout(bits)})

    @classmethod
    def of(cls, mesh: Mesh, tile: int) -> data.Const:
        """Return the place of a tile."""
        y, x = divmod(tile, mesh.x)
        return cls(count_bits(mesh)).const({"x": x, "y": y, "shares": shares(mesh, tile)})


class Router(Leaf):
    """A router: what came in with one clock edge leaves with the next, if nothing is in the way.

    Parameters
    ----------
    flit_bytes
        Bytes of a flit.
    depth
        Slots of each input.
    bits
        Width of the outputs' counts, see `rtl.noc.shares`.

    Members
    -------
    place : In
        Where it is.
    inputs, outputs : arrays of In, Out
        The links of each `Side`.
    """

    def __init__(self, flit_bytes: int, depth: int, bits: int) -> None:
        self.flit_bytes, self.depth, self.bits = flit_bytes, depth, bits
        link = LinkSignature(flit_bytes)
        super().__init__(
            {
                "place": In(PlaceLayout(bits)),
                "inputs": In(link).array(len(Side)),
                "outputs": Out(link).array(len(Side)),
            }
        )

    @property
    def module_name(self) -> str:
        """Name of the module."""
        return f"noc_router_{self.flit_bytes}_{self.depth}_{self.bits}"

    def build(self, platform: Any) -> Module:
        """Return buffers, allocator and crossbar."""
        m = Module()
        m.submodules.allocator = allocator = Allocator(self.bits)
        m.d.comb += allocator.shares.eq(self.place.shares)
        grants = {pair: allocator.grants[n] for n, pair in enumerate(PAIRS)}
        buffers = {}
        for i in Side:
            buffer = InputBuffer(i, self.depth, self.flit_bytes)
            m.submodules[f"buffer_{i.name.lower()}"] = buffer
            connect(m, flipped(self.inputs[i]), buffer.link)
            m.d.comb += [
                buffer.x.eq(self.place.x),
                buffer.y.eq(self.place.y),
                buffer.take.eq(Cat(grants[i, o] for o in buffer.outputs)),
            ]
            buffers[i] = buffer
        m.d.comb += [
            allocator.requests.eq(Cat(buffer.requests for buffer in buffers.values())),
            allocator.before.eq(Cat(buffer.before for buffer in buffers.values())),
        ]
        for o in Side:
            out, flits = self.outputs[o], [buffers[i].flit for i in inputs_of(o)]
            granted = Cat(grants[i, o] for i in inputs_of(o))
            m.d.comb += [
                out.valid.eq(granted.any()),
                out.flit.data.eq(pick(granted, [flit.data for flit in flits])),
                out.flit.last.eq(pick(granted, [flit.last for flit in flits])),
                allocator.space[o].eq(out.space),
                allocator.last[o].eq(out.flit.last),
            ]
        return m
