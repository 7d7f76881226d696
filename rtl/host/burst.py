"""AXI bursts: which are carried out, and the transfers that each consists of."""

from __future__ import annotations

import enum
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.config import TileConfig
from rtl.host.client import ADDRESS_BITS

AXI_ADDRESS_BITS = 40
"""Width of an AXI address, whatever the size of the memory."""

ID_BITS = 8
"""Width of an AXI ID."""

PAGE_BITS = 12
"""No burst leaves its 4 KiB."""

AXI_BYTES_MAX = 128
"""The widest transfer that AXI knows."""

CHUNK = 8
"""Beats of the longest descriptor; descriptors end at multiples of it."""


class Kind(enum.IntEnum):
    """How the address goes on within a burst; 3 is reserved."""

    FIXED = 0
    INCR = 1
    WRAP = 2


class Response(enum.IntEnum):
    """What came of it. The bitwise OR of two is the worse one."""

    OKAY = 0
    SLVERR = 2
    """It was there, and failed; or the burst breaks AXI's rules."""
    DECERR = 3
    """There is nothing there."""


def bus_bytes(config: TileConfig) -> int:
    """Return the width of the AXI data bus: the address space of a beat, as far as AXI goes."""
    return min(config.beat_stride, AXI_BYTES_MAX)


def offset_bits(config: TileConfig) -> int:
    """Return how many low bits of a byte address lie within a beat."""
    return config.beat_stride.bit_length() - 1


class BurstLayout(data.StructLayout):
    """A burst.

    Fields
    ------
    id
        Whose.
    position, page
        Address of its first byte: within 4 KiB, and above.
    length
        Transfers, less one.
    size
        Binary logarithm of the bytes of a transfer.
    kind
        See `Kind`.
    refusal
        The `Response`, if it is not carried out.
    """

    def __init__(self, config: TileConfig) -> None:
        super().__init__(
            {
                "id": ID_BITS,
                "position": PAGE_BITS,
                "page": ADDRESS_BITS + offset_bits(config) - PAGE_BITS,
                "length": 8,
                "size": 3,
                "kind": 2,
                "refusal": 2,
            }
        )


def within_transfer(burst: data.View) -> Value:
    """Return a mask of the address bits that count bytes within a transfer."""
    largest = AXI_BYTES_MAX.bit_length() - 1
    return Cat(*(burst.size > bit for bit in range(largest)), Const(0, PAGE_BITS - largest))


def within_wrap(burst: data.View) -> Value:
    """Return a mask of the address bits that change in a WRAP burst."""
    return (burst.length[:4] << burst.size) | within_transfer(burst)


def last_position(burst: data.View) -> Value:
    """Return where the last transfer of an INCR burst starts; more bits if it leaves the page."""
    return (burst.position & ~within_transfer(burst)) + (burst.length << burst.size)


def refusal(config: TileConfig, burst: data.View, address: Value) -> Value:
    """Return how to answer a burst without carrying it out, or OKAY.

    Parameters
    ----------
    config
        Configuration of the tile.
    burst
        The burst; its `refusal` is not used.
    address
        All of its address.
    """
    outside = address[ADDRESS_BITS + offset_bits(config) :].any()
    wraps = Cat(burst.length == length for length in (1, 3, 7, 15)).any()
    unaligned = (burst.position & within_transfer(burst)).any()
    too_wide = Cat(burst.size == size for size in range(bus_bytes(config).bit_length(), 8)).any()
    rules = {
        Kind.FIXED: burst.length > 15,
        Kind.INCR: last_position(burst)[PAGE_BITS:].any(),
        Kind.WRAP: ~wraps | unaligned,
    }
    broken = Const(1)
    for kind, rule in rules.items():
        broken = Mux(burst.kind == kind, rule, broken)
    return Mux(outside, Response.DECERR, Mux(broken | too_wide, Response.SLVERR, Response.OKAY))


class Walk(wiring.Component):
    """The transfers of a burst, one after the other.

    Parameters
    ----------
    config
        Configuration of the tile.

    Members
    -------
    burst : In
        The burst, until its last transfer is done.
    step : In
        This transfer is done.
    position : Out
        Address of its first byte, within 4 KiB.
    last : Out
        It is the last one.
    leaves : Out
        It is the last one or the next one is in another beat.
    jumps : Out
        It is the last one or the next one is neither in this beat nor in the one behind it.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        super().__init__(
            {
                "burst": In(BurstLayout(config)),
                "step": In(1),
                "position": Out(PAGE_BITS),
                "last": Out(1),
                "leaves": Out(1),
                "jumps": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the walk."""
        m = Module()
        burst, offset = self.burst, offset_bits(self.config)
        count, later = Signal(8), Signal(PAGE_BITS)
        wrap, behind, following = (Signal(PAGE_BITS) for _ in range(3))
        m.d.comb += [
            self.position.eq(Mux(count == 0, burst.position, later)),
            wrap.eq(within_wrap(burst)),
            behind.eq((self.position | within_transfer(burst)) + 1),
            self.last.eq(count == burst.length),
        ]
        with m.Switch(burst.kind):
            with m.Case(Kind.FIXED):
                m.d.comb += following.eq(self.position)
            with m.Case(Kind.WRAP):
                m.d.comb += following.eq((self.position & ~wrap) | (behind & wrap))
            with m.Default():
                m.d.comb += following.eq(behind)
        here, there = self.position[offset:], following[offset:]
        m.d.comb += [
            self.leaves.eq(self.last | (here != there)),
            self.jumps.eq(self.last | ((here != there) & (here + 1 != there))),
        ]
        with m.If(self.step):
            m.d.sync += [count.eq(Mux(self.last, 0, count + 1)), later.eq(following)]
        return m
