"""From instructions to runs of bytes, row by row."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.core.fields import OPCODE_BITS, WORD_BITS
from rtl.core.isa import BLOCK_WORDS, OPCODES, LoadKind
from rtl.core.layout import InstructionLayout
from rtl.l1.geometry import ADDRESS_BITS
from rtl.memory.commands import AppendLayout, FetchLayout, RunLayout, What
from rtl.memory.geometry import MemoryGeometry

NAMES = ("load", "loadr", "store", "append", "appendmax", "fence")
"""Instructions of the memory engine."""

OPERATION_BITS = WORD_BITS * max(OPCODES[name].words for name in NAMES)
"""Bits of the longest of them."""


class Sequencer(wiring.Component):
    """Go through the rows of instructions.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    operations : In
        Instructions, as `rtl.core.layout.InstructionLayout` has them.
    runs : Out
        What is to be loaded or stored; a run without bytes ends the instruction.
    fetches : Out
        Lines of registers, for the runs that store, and for who appends.
    appends : Out
        What is to be appended.
    room : In
        Another instruction may be taken up.
    quiet : In
        Everything that was stored is where a stream, or another tile, finds it.
    begins : Out
        An instruction was taken up; `loads` says which way it ends.
    loads : Out
        By a run that loads.
    fencing, fenced : Out
        A fence waits; it has ended.
    """

    def __init__(self, geometry: MemoryGeometry) -> None:
        self.geometry = g = geometry
        super().__init__(
            {
                "operations": In(stream.Signature(OPERATION_BITS)),
                "runs": Out(stream.Signature(RunLayout(g))),
                "fetches": Out(stream.Signature(FetchLayout(g))),
                "appends": Out(stream.Signature(AppendLayout(g))),
                "room": In(1),
                "quiet": In(1),
                "begins": Out(1),
                "loads": Out(1),
                "fencing": Out(1),
                "fenced": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the walk through rows."""
        m = Module()
        g = self.geometry
        words, run = self.operations.payload, self.runs.payload
        opcode = words[:OPCODE_BITS]
        o = {
            name: data.View(InstructionLayout(name), words[: WORD_BITS * OPCODES[name].words])
            for name in NAMES
        }
        load, store, append, appendmax = o["load"], o["store"], o["append"], o["appendmax"]

        # The row that is next. All of it is sums, one addition from row to row.
        row = Signal.like(load.rows)
        address, scales = Signal(ADDRESS_BITS), Signal(ADDRESS_BITS)
        slot, stride = Signal(len(load.offset)), Signal(len(load.stride))
        pitch, mask = Signal(ADDRESS_BITS), Signal(WORD_BITS)
        scaled, next_row = Signal(), Signal()
        with m.If(next_row):
            m.d.sync += [
                row.eq(row + 1),
                address.eq(address + pitch),
                scales.eq(scales + pitch),
                slot.eq(slot + stride),
                mask.eq(mask >> 1),
                scaled.eq(0),
            ]

        line = slot * g.slot_lines
        m.d.comb += [
            run.address.eq(address),
            run.register.eq(load.to),
            run.place.eq(line),
            run.elements.eq(load.columns),
            run.streaming.eq(load.streaming),
        ]
        done = Signal()
        m.d.comb += self.operations.ready.eq(done)
        with m.FSM():
            with m.State("idle"), m.If(self.operations.valid & self.room):
                m.d.comb += self.begins.eq(1)
                m.d.sync += [row.eq(0), scaled.eq(0)]
                with m.Switch(opcode):
                    with m.Case(OPCODES["load"].number):
                        m.d.comb += self.loads.eq(1)
                        m.d.sync += [
                            address.eq(load.address + load.address_offset),
                            scales.eq(load.scales + load.scales_offset),
                            pitch.eq(load.pitch),
                            slot.eq(load.offset),
                            stride.eq(load.stride),
                        ]
                        m.next = "load"
                    with m.Case(OPCODES["loadr"].number):
                        m.d.comb += self.loads.eq(1)
                        m.d.sync += address.eq(o["loadr"].address + o["loadr"].address_offset)
                        m.next = "loadr"
                    with m.Case(OPCODES["store"].number):
                        m.d.sync += [
                            address.eq(store.address + store.address_offset),
                            pitch.eq(store.pitch),
                            slot.eq(store.offset),
                            stride.eq(store.stride),
                            mask.eq(store.mask),
                        ]
                        m.next = "store"
                    with m.Case(OPCODES["append"].number):
                        m.next = "append"
                    with m.Case(OPCODES["appendmax"].number):
                        m.next = "appendmax"
                    with m.Default():
                        m.next = "fence"

            with m.State("load"):
                with m.If(done):
                    m.next = "idle"
                kind = load.kind
                blocks = (load.columns + 31) >> 5
                m.d.comb += self.runs.valid.eq(1)
                with m.If((row == load.rows) | (load.columns == 0)):
                    m.d.comb += [run.what.eq(What.LOADED), done.eq(self.runs.ready)]
                with m.Elif(((kind == LoadKind.MXFP4) | (kind == LoadKind.MXINT8)) & ~scaled):
                    m.d.comb += [
                        run.what.eq(What.SCALES),
                        run.address.eq(scales),
                        run.bytes.eq(blocks),
                        run.elements.eq(blocks),
                        run.place.eq(0),
                    ]
                    with m.If(self.runs.ready):
                        m.d.sync += scaled.eq(1)
                with m.Else():
                    m.d.comb += next_row.eq(self.runs.ready)
                    with m.Switch(kind):
                        with m.Case(LoadKind.WORDS):
                            m.d.comb += [run.what.eq(What.WORDS), run.bytes.eq(load.columns << 2)]
                        with m.Case(LoadKind.BYTES):
                            m.d.comb += [run.what.eq(What.BYTES), run.bytes.eq(load.columns)]
                        with m.Case(LoadKind.MXFP4):
                            m.d.comb += [run.what.eq(What.MXFP4), run.bytes.eq(blocks << 4)]
                        with m.Case(LoadKind.MXINT8):
                            m.d.comb += [run.what.eq(What.MXINT8), run.bytes.eq(blocks << 5)]

            with m.State("loadr"):
                with m.If(done):
                    m.next = "idle"
                loadr = o["loadr"]
                m.d.comb += [
                    self.runs.valid.eq(1),
                    run.register.eq(loadr.to),
                    run.place.eq(loadr.row),
                    run.elements.eq(loadr.rows),
                    run.bytes.eq(loadr.rows << 2),
                    run.streaming.eq(0),
                ]
                with m.If((row != 0) | (loadr.rows == 0)):
                    m.d.comb += [run.what.eq(What.LOADED), done.eq(self.runs.ready)]
                with m.Else():
                    m.d.comb += [run.what.eq(What.ROWS), next_row.eq(self.runs.ready)]

            with m.State("store"):
                with m.If(done):
                    m.next = "idle"
                fetch = self.fetches.payload
                m.d.comb += [
                    run.what.eq(What.STORE),
                    run.bytes.eq(store.columns << 2),
                    run.streaming.eq(0),
                    fetch.register.eq(store.source),
                    fetch.line.eq(line),
                    fetch.count.eq((store.columns + g.line_words - 1) >> g.word_bits),
                ]
                with m.If((row == store.rows) | (store.columns == 0)):
                    m.d.comb += [
                        run.what.eq(What.STORED),
                        self.runs.valid.eq(1),
                        done.eq(self.runs.ready),
                    ]
                with m.Elif(mask[0] | ~store.masked):
                    m.d.comb += [
                        self.runs.valid.eq(self.fetches.ready),
                        self.fetches.valid.eq(self.runs.ready),
                        next_row.eq(self.runs.ready & self.fetches.ready),
                    ]
                with m.Else():
                    m.d.comb += next_row.eq(1)

            with m.State("append"):
                with m.If(done):
                    m.next = "idle"
                fetch, to = self.fetches.payload, self.appends.payload
                per_line = g.line_words // BLOCK_WORDS
                m.d.comb += [
                    fetch.register.eq(append.source),
                    fetch.line.eq(append.block // per_line),
                    fetch.count.eq(1),
                    fetch.append.eq(1),
                    to.planes.eq(append.format),
                    to.block.eq(append.block % per_line),
                    to.elements.eq(append.elements + append.elements_offset),
                    to.scale.eq(append.scale + append.scale_offset),
                    self.appends.valid.eq(self.fetches.ready),
                    self.fetches.valid.eq(self.appends.ready),
                    done.eq(self.appends.ready & self.fetches.ready),
                ]
            with m.State("appendmax"):
                with m.If(done):
                    m.next = "idle"
                to = self.appends.payload
                m.d.comb += [
                    to.maximum.eq(1),
                    to.register.eq(appendmax.source),
                    to.row.eq(appendmax.row),
                    to.scale.eq(appendmax.address + appendmax.address_offset),
                    self.appends.valid.eq(1),
                    done.eq(self.appends.ready),
                ]
            with m.State("fence"):
                with m.If(done):
                    m.next = "idle"
                m.d.comb += [
                    self.fencing.eq(1),
                    done.eq(self.quiet),
                    self.fenced.eq(self.quiet),
                ]
        return m
