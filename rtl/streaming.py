"""The memory side of a tile: host port, HBM slice, and the matrix engine that streams from it."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import TileConfig
from rtl.hbm.interface import PseudoChannelSignature
from rtl.hbm.ports import ClientSignature, find_client
from rtl.hbm.slice import HbmSlice
from rtl.host import HostPort, axi_ports, lite_ports, pass_through
from rtl.host.axi import REGISTER_WORDS
from rtl.mac import (
    ActivationLayout,
    ActivationRequestLayout,
    MatrixEngine,
    OperandLayout,
    OperandStream,
    OperationLayout,
    ResultLayout,
)
from rtl.register_windows import RegisterDecoder, RegisterWindows

OPEN_CLIENTS = ("l1", "loads", "stores")
"""Clients of the slice that are ports here: nobody in here uses them."""


class StreamingEngine(wiring.Component):
    """A matrix engine whose operands stream from the HBM slice, which a host can reach.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    operands : In
        Where the beats of the operations are, in their order. See `rtl.mac.OperandLayout`.
    operations, requests, activations, results
        Of the matrix engine, see `rtl.mac.MatrixEngine`.
    s_axi_*, s_axil_* : In
        Of the host port, see `rtl.host.HostPort`.
    l1, stores : In
        Further clients of the slice, see `rtl.hbm.ports.ClientSignature`.
    hbm : array of Out
        The pseudo-channels.

    Attributes
    ----------
    register_map
        What the host reaches over AXI4-Lite: a window for the slice, one for the engine, and one
        for its operand stream.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self._slice = HbmSlice(config)
        self._engine = MatrixEngine(config)
        self._operands = OperandStream(config)
        self.register_map = RegisterWindows(
            {
                "hbm": self._slice.register_map,
                "mac": self._engine.register_map,
                "operands": self._operands.register_map,
            }
        )
        super().__init__(
            {
                "operands": In(stream.Signature(OperandLayout())),
                "operations": In(stream.Signature(OperationLayout(config))),
                "requests": Out(stream.Signature(ActivationRequestLayout(config))),
                "activations": In(stream.Signature(ActivationLayout(config))),
                "results": Out(stream.Signature(ResultLayout(config))),
                **{
                    name: In(ClientSignature(find_client(config, name), config.pseudo_channels))
                    for name in OPEN_CLIENTS
                },
                "hbm": Out(PseudoChannelSignature()).array(config.pseudo_channels),
            }
            | axi_ports(config)
            | lite_ports()
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the parts, connected."""
        m = Module()
        m.submodules.slice = memory = self._slice
        m.submodules.engine = engine = self._engine
        m.submodules.operand_stream = operands = self._operands
        m.submodules.host = host = HostPort(self.config)
        m.submodules.decoder = decoder = RegisterDecoder(self.register_map, REGISTER_WORDS)

        connect(m, flipped(self.operands), operands.operands)
        connect(m, operands.client, memory.matrix)
        connect(m, operands.beats, engine.beats)
        connect(m, flipped(self.operations), engine.operations)
        connect(m, engine.requests, flipped(self.requests))
        connect(m, flipped(self.activations), engine.activations)
        connect(m, engine.results, flipped(self.results))

        pass_through(m, self, host, axi_ports(self.config) | lite_ports())
        connect(m, host.client, memory.host)
        connect(m, host.bus, decoder.bus)
        for window, part in (("hbm", memory), ("mac", engine), ("operands", operands)):
            connect(m, getattr(decoder, window), part.bus)

        for name in OPEN_CLIENTS:
            connect(m, flipped(getattr(self, name)), getattr(memory, name))
        for inner, outer in zip(memory.hbm, self.hbm, strict=True):
            connect(m, inner, flipped(outer))
        return m
