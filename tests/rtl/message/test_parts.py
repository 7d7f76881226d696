"""Parts of a message engine by themselves."""

import random

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from rtl.config import PRESETS, Mesh
from rtl.core.isa import MESSAGES
from rtl.message.geometry import MessageGeometry
from rtl.message.inbox import Inbox
from rtl.message.layouts import TILE_BITS, AnnouncementLayout, place


@pytest.mark.parametrize("seed", range(4))
def test_an_inbox_gives_the_first_that_fits(seed):
    """Against a list: whatever comes when, and with all the room used."""
    config = PRESETS["nano"].replace(mesh="2x1")
    geometry = MessageGeometry(config)
    inbox, layout = Inbox(geometry), AnnouncementLayout(geometry)
    rng = random.Random(seed)

    async def bench(ctx):
        waiting, offered, wanted, fullest, found = [], None, None, 0, 0
        under_way = [0, 0]
        for cycle in range(6000):
            source = rng.randrange(2)
            busy = cycle // 500 % 2  # many come, or few
            if offered is None and under_way[source] < MESSAGES and rng.random() < (0.5, 0.1)[busy]:
                offered = (source, rng.randrange(3), rng.randrange(64))
                under_way[source] += 1
            if offered is not None:
                source, tag, count = offered
                value = {"source": source, "tag": tag, "count": count}
                ctx.set(inbox.announced.payload, layout.const(value))
            ctx.set(inbox.announced.valid, offered is not None)
            if wanted is None and rng.random() < (0.02, 0.3)[busy]:
                # One that is there, or any that comes: others might not come for lack of room.
                tile, tag, _ = rng.choice(waiting) if waiting else (None, None, 0)
                wanted = (rng.choice([None, tile]), rng.choice([None, tag]))
            ctx.set(inbox.search, wanted is not None)
            if wanted is not None:
                tile, tag = wanted
                ctx.set(inbox.wanted.any_tile, tile is None)
                ctx.set(inbox.wanted.tile, tile or 0)
                ctx.set(inbox.wanted.any_tag, tag is None)
                ctx.set(inbox.wanted.tag, tag or 0)
            ready = rng.random() < 0.5
            ctx.set(inbox.found.ready, ready)
            comes = offered is not None and ctx.get(inbox.announced.ready)
            taken = ready and ctx.get(inbox.found.valid)
            if taken:
                got = ctx.get(inbox.found.payload)
                tile, tag = wanted
                fits = [m for m in waiting if tile in (None, m[0]) and tag in (None, m[1])]
                assert (got.source, got.tag, got.count) == fits[0]
                waiting.remove(fits[0])
                under_way[got.source] -= 1
                found, wanted = found + 1, None
            if comes:
                waiting.append(offered)
                offered = None
            fullest = max(fullest, len(waiting))
            await ctx.tick()
        assert found > 300
        assert fullest == geometry.waiting

    simulator = Simulator(inbox)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


class Places(wiring.Component):
    """Where tiles are."""

    def __init__(self, mesh):
        self.mesh = mesh
        super().__init__({"tile": In(TILE_BITS), "x": Out(4), "y": Out(4)})

    def elaborate(self, platform):
        m = Module()
        x, y = place(self.mesh, self.tile)
        m.d.comb += [self.x.eq(x), self.y.eq(y)]
        m.d.sync += Signal().eq(self.x[0])  # there is a clock
        return m


@pytest.mark.parametrize("size", ["1x1", "1x4", "5x1", "3x5", "16x16"])
def test_places_of_all_tiles(size):
    mesh = Mesh(*map(int, size.split("x")))
    places = Places(mesh)

    async def bench(ctx):
        for tile in range(mesh.tiles):
            ctx.set(places.tile, tile)
            assert (ctx.get(places.x), ctx.get(places.y)) == (tile % mesh.x, tile // mesh.x)

    simulator = Simulator(places)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
