"""From descriptors to accesses."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.hbm.interface import ACCESS_BYTES, BEAT_BYTES
from rtl.hbm.place import GeometryLayout, Locator, PlaceLayout, SetLayout, pages
from rtl.hbm.ports import ADDRESS_BITS, AnswerLayout, DescriptorLayout, WriteBeatLayout


class AccessLayout(data.StructLayout):
    """An access of two beats, of which one may not be wanted.

    Fields
    ------
    place
        Where.
    exists
        Whether there is such a place; if not, it is of one beat.
    write
        To write; otherwise to read.
    wanted
        A bit for each beat.
    data, enable
        What to write: 32 bytes, and an enable for each.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "place": PlaceLayout(),
                "exists": 1,
                "write": 1,
                "wanted": 2,
                "data": 8 * ACCESS_BYTES,
                "enable": ACCESS_BYTES,
            }
        )


class Generator(wiring.Component):
    """Walk through the descriptors of a client, an access at a time.

    Parameters
    ----------
    writes
        Whether the client writes.

    Members
    -------
    geometry : In
        See `GeometryLayout`.
    enable : In
        Descriptors are accepted.
    descriptors, writes, answers
        Of the client, see `rtl.hbm.ports.ClientSignature`.
    accesses : Out
        See `AccessLayout`. May be taken in the cycle in which it is offered first.
    active, pages : Out
        A descriptor is under way, in this set of pages.
    ahead, next_pages : Out
        It, or the one after it, goes on in another one.
    """

    def __init__(self, *, writes: bool) -> None:
        self.has_writes = writes
        members = {
            "geometry": In(GeometryLayout()),
            "enable": In(1),
            "descriptors": In(stream.Signature(DescriptorLayout())),
            "accesses": Out(stream.Signature(AccessLayout())),
            "active": Out(1),
            "pages": Out(SetLayout()),
            "ahead": Out(1),
            "next_pages": Out(SetLayout()),
        }
        if writes:
            members["writes"] = In(stream.Signature(WriteBeatLayout()))
            members["answers"] = Out(stream.Signature(AnswerLayout()))
        super().__init__(members)

    def elaborate(self, platform: Any) -> Module:
        """Return two descriptors, the present one and the next, and the walk through them."""
        m = Module()
        waiting, following = Signal(), Signal(DescriptorLayout())
        write, address, end = Signal(), Signal(ADDRESS_BITS + 1), Signal(ADDRESS_BITS + 1)
        live = Signal()  # low during reset: nothing is accepted then
        done = Signal()  # the present descriptor ends in this cycle
        new = self.descriptors.payload
        accept, load = Signal(), Signal()
        source = Signal(DescriptorLayout())
        m.d.sync += live.eq(1)
        m.d.comb += [
            self.descriptors.ready.eq(~waiting & live & self.enable),
            accept.eq(self.descriptors.valid & self.descriptors.ready),
            load.eq((~self.active | done) & (waiting | accept)),
            source.eq(Mux(waiting, Value.cast(following), Value.cast(new))),
        ]
        with m.If(accept):
            m.d.sync += [following.eq(new), Assert(new.beats != 0)]
        m.d.sync += waiting.eq((waiting | accept) & ~load)

        here = Locator(m, self.geometry, address[1:])
        there = Locator(m, self.geometry, end[1:])
        behind = Locator(m, self.geometry, following.address[1:])
        access = self.accesses.payload
        last_access, wanted, final, step = Signal(), Signal(2), Signal(), Signal(2)
        m.d.comb += [
            last_access.eq(address[1:] == end[1:]),
            wanted.eq(Cat(~address[0], address[0] | ~(last_access & ~end[0]))),
            access.place.eq(here.place),
            access.exists.eq(here.exists),
            access.write.eq(write),
            # Where nothing is, a beat at a time.
            access.wanted.eq(Mux(here.exists | ~wanted[0], wanted, 1)),
            final.eq(last_access & (access.wanted[1] | ~wanted[1])),
            step.eq(access.wanted[0] + access.wanted[1]),
            self.pages.eq(here.pages),
            done.eq(self.accesses.valid & self.accesses.ready & final),
        ]
        with m.If(self.accesses.valid & self.accesses.ready):
            m.d.sync += [address.eq(address + step), self.active.eq(~final)]
        with m.If(load):
            m.d.sync += [
                self.active.eq(1),
                write.eq(source.write),
                address.eq(source.address),
                end.eq(source.address + source.beats - 1),
            ]

        inside = Signal()  # this descriptor goes on in the next set
        m.d.comb += [
            inside.eq(here.set_number != there.set_number),
            self.ahead.eq(
                self.active & here.exists & Mux(inside, there.exists, waiting & behind.exists)
            ),
            self.next_pages.eq(
                Mux(
                    inside,
                    Value.cast(pages(self.geometry, here.set_number + 1)),
                    Value.cast(behind.pages),
                )
            ),
        ]
        if self.has_writes:
            self._collect(m, write, final)
        else:
            m.d.comb += [self.accesses.valid.eq(self.active), access.data.eq(0)]
            m.d.comb += access.enable.eq(0)
            m.d.sync += Assert(~self.active | ~write)
        return m

    def _collect(self, m: Module, write: Value, final: Value) -> None:
        """Put the beats of an access together; the last one goes by."""
        access, beat = self.accesses.payload, self.writes.payload
        held, has_held, failed = Signal(WriteBeatLayout()), Signal(), Signal()
        both, collecting, blocked, answered = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            both.eq(access.wanted.all()),
            collecting.eq(self.active & write & both & ~has_held),
            # The answer to the write before must have gone.
            blocked.eq(final & self.answers.valid),
            self.accesses.valid.eq(
                self.active & (~write | (self.writes.valid & ~collecting & ~blocked))
            ),
            self.writes.ready.eq(collecting | (write & self.accesses.valid & self.accesses.ready)),
            access.data.eq(Cat(Mux(has_held, held.data, beat.data), beat.data)),
            access.enable.eq(
                Cat(
                    Mux(has_held, held.enable, Mux(access.wanted[0], beat.enable, 0)),
                    Mux(access.wanted[1], beat.enable, Const(0, BEAT_BYTES)),
                )
            ),
            answered.eq(self.accesses.valid & self.accesses.ready & write),
        ]
        with m.If(collecting & self.writes.valid):
            m.d.sync += [held.eq(beat), has_held.eq(1)]
        with m.If(answered):
            m.d.sync += [
                has_held.eq(0),
                failed.eq(Mux(final, 0, failed | ~access.exists)),
            ]
        with m.If(self.answers.ready):
            m.d.sync += self.answers.valid.eq(0)
        with m.If(answered & final):
            m.d.sync += [
                self.answers.valid.eq(1),
                self.answers.payload.error.eq(failed | ~access.exists),
            ]
