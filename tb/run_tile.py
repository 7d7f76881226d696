"""A tile that does what the other end of a channel tells it.

`sim.tile` starts this module under the simulator and says through the environment what to do:

======================  ==========================================================
``JALAPENO_CONFIG``     the configuration of the tile, as JSON
``JALAPENO_HBM_ROWS``   rows of each bank of the device
``JALAPENO_CHANNEL``    number of the open file over which commands come: pairs of
                        a method of `tb.tile.TileTestbench` and its arguments
======================  ==========================================================
"""

from __future__ import annotations

import json
import os
from multiprocessing.connection import Connection
from typing import Any

import cocotb

from rtl.config import TileConfig
from tb.tile import TileTestbench


@cocotb.test()
async def serve(dut: Any) -> None:
    """Carry out commands until there are no more, and tell what fails."""
    config = TileConfig.from_dict(json.loads(os.environ["JALAPENO_CONFIG"]))
    bench = TileTestbench(dut, config, int(os.environ["JALAPENO_HBM_ROWS"]))
    channel = Connection(int(os.environ["JALAPENO_CHANNEL"]))
    while True:
        try:
            method, arguments = channel.recv()
        except EOFError:
            return
        try:
            answer = await getattr(bench, method)(*arguments)
        except AssertionError as error:
            channel.send((False, str(error)))
            continue
        channel.send((True, answer))
