"""AXI4-Lite to registers."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.host.burst import Response
from rtl.registers import WORD_BITS, WORD_BYTES, RegisterBus


class LiteWriteLayout(data.StructLayout):
    """A transfer of the W channel."""

    def __init__(self) -> None:
        super().__init__({"data": WORD_BITS, "strb": WORD_BYTES})


class LiteReadLayout(data.StructLayout):
    """A transfer of the R channel."""

    def __init__(self) -> None:
        super().__init__({"data": WORD_BITS, "resp": Response})


class LiteBridge(wiring.Component):
    """Reads and writes of whole words, one at a time, in turn if there are both.

    Parameters
    ----------
    words
        Words behind the bus.

    Members
    -------
    write_addresses, writes : In
        Numbers of words, and what to write there.
    responses : Out
        A `Response` to each.
    read_addresses : In
        Numbers of words.
    reads : Out
        What was read there.
    bus : Out
        To the registers.
    """

    def __init__(self, words: int) -> None:
        bus = RegisterBus(words)
        address = stream.Signature(bus.members["address"].shape)
        super().__init__(
            {
                "write_addresses": In(address),
                "writes": In(stream.Signature(LiteWriteLayout())),
                "responses": Out(stream.Signature(Response)),
                "read_addresses": In(address),
                "reads": Out(stream.Signature(LiteReadLayout())),
                "bus": Out(bus),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return a register for each channel."""
        m = Module()
        held = {}
        done = {"write_addresses": Signal(), "writes": Signal(), "read_addresses": Signal()}
        for name, finished in done.items():
            channel = getattr(self, name)
            full = Signal(name=f"{name}_full")
            payload = Signal(channel.payload.shape(), name=f"{name}_held")
            held[name] = full, payload
            m.d.comb += channel.ready.eq(~full)
            with m.If(channel.valid & channel.ready):
                m.d.sync += [full.eq(1), payload.eq(channel.payload)]
            with m.If(finished):
                m.d.sync += full.eq(0)

        (has_address, to), (has_data, write), (has_read, source) = held.values()
        bus, wrote, reading = self.bus, Signal(), Signal()
        can_write, can_read = Signal(), Signal()
        m.d.comb += [
            can_write.eq(has_address & has_data & ~self.responses.valid),
            can_read.eq(has_read & ~reading & ~self.reads.valid),
            bus.write.eq(can_write & ~(can_read & wrote)),
            bus.read.eq(can_read & ~bus.write),
            bus.address.eq(Mux(bus.write, to, source)),
            bus.write_data.eq(write.data),
            bus.write_mask.eq(write.strb),
            done["write_addresses"].eq(bus.write),
            done["writes"].eq(bus.write),
            done["read_addresses"].eq(bus.read),
        ]
        response = Mux(bus.mapped, Response.OKAY, Response.DECERR)
        m.d.sync += reading.eq(bus.read)
        with m.If(self.responses.ready):
            m.d.sync += self.responses.valid.eq(0)
        with m.If(self.reads.ready):
            m.d.sync += self.reads.valid.eq(0)
        with m.If(bus.write):
            m.d.sync += [
                wrote.eq(1),
                self.responses.valid.eq(1),
                self.responses.payload.eq(response),
            ]
        with m.If(bus.read):
            m.d.sync += [wrote.eq(0), self.reads.payload.resp.eq(response)]
        with m.If(reading):
            m.d.sync += [self.reads.valid.eq(1), self.reads.payload.data.eq(bus.read_data)]
        return m
