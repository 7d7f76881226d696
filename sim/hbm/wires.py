"""A design that is nothing but HBM buses: whoever drives its ports commands the devices."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.hbm.interface import PseudoChannelSignature


class BusWires(wiring.Component):
    """Wires from buses to buses, for tests of device and checker by themselves.

    Parameters
    ----------
    channels
        Pseudo-channels.

    Members
    -------
    drive : In
        What to tell the devices.
    hbm : Out
        The devices.
    """

    def __init__(self, channels: int) -> None:
        self.channels = channels
        bus = PseudoChannelSignature()
        super().__init__({"drive": In(bus).array(channels), "hbm": Out(bus).array(channels)})

    def elaborate(self, platform: Any) -> Module:
        """Return the wires."""
        m = Module()
        for i in range(self.channels):
            connect(m, flipped(self.drive[i]), flipped(self.hbm[i]))
        return m
