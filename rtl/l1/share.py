"""Several users of one L1 cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.l1.cache import ENTRIES
from rtl.l1.geometry import L1Geometry
from rtl.l1.ports import AnswerLayout, RequestLayout
from rtl.vec.queue import CommandQueue


class L1UserSignature(wiring.Signature):
    """The port of a user of the cache, as the user drives it.

    Members
    -------
    requests : Out
        What is wanted, see `rtl.l1.ports.RequestLayout`.
    answers : In
        What was read. Must be taken whether more can be asked or not.
    """

    def __init__(self, geometry: L1Geometry) -> None:
        super().__init__(
            {
                "requests": Out(stream.Signature(RequestLayout(geometry))),
                "answers": In(stream.Signature(AnswerLayout(geometry))),
            }
        )


class L1Share(wiring.Component):
    """Pass requests on, one per cycle, and answers back to who asked.

    Parameters
    ----------
    geometry
        Sizes of the cache.
    users
        Names of the users. Who comes first goes first; one that is offering a request keeps its
        turn until it is taken.

    Members
    -------
    *user* : In
        `L1UserSignature`, by name.
    cache : Out
        To the cache.
    """

    def __init__(self, geometry: L1Geometry, users: Sequence[str]) -> None:
        self.geometry, self.users = geometry, tuple(users)
        signature = L1UserSignature(geometry)
        super().__init__({"cache": Out(signature), **{name: In(signature) for name in users}})

    def elaborate(self, platform: Any) -> Module:
        """Return who has the turn, and a queue of who asked."""
        m = Module()
        users = [getattr(self, name) for name in self.users]
        bits = max(1, ceil_log2(len(users)))
        m.submodules.asked = asked = CommandQueue(data.StructLayout({"user": bits}), ENTRIES)

        turn, kept, keeps = Signal(bits), Signal(bits), Signal()
        m.d.comb += turn.eq(len(users) - 1)
        for i, user in reversed([*enumerate(users)]):
            with m.If(user.requests.valid):
                m.d.comb += turn.eq(i)
        with m.If(keeps):
            m.d.comb += turn.eq(kept)
        out = self.cache.requests
        waits, room = Signal(), Signal()
        m.d.sync += [kept.eq(turn), keeps.eq(out.valid & ~out.ready)]

        payload = users[-1].requests.payload.as_value()
        for i, user in enumerate(users[:-1]):
            payload = Mux(turn == i, user.requests.payload.as_value(), payload)
        m.d.comb += [
            out.payload.eq(payload),
            room.eq(asked.commands.ready | out.payload.write),
            waits.eq(Cat(u.requests.valid & (turn == i) for i, u in enumerate(users)).any()),
            out.valid.eq(waits & room),
            asked.commands.valid.eq(out.valid & out.ready & ~out.payload.write),
            asked.commands.payload.user.eq(turn),
        ]
        answers = self.cache.answers
        for i, user in enumerate(users):
            m.d.comb += [
                user.requests.ready.eq((turn == i) & room & out.ready),
                user.answers.valid.eq(answers.valid & (asked.head.payload.user == i)),
                user.answers.payload.eq(answers.payload),
            ]
        m.d.comb += [
            answers.ready.eq(
                Cat(
                    user.answers.ready & (asked.head.payload.user == i)
                    for i, user in enumerate(users)
                ).any()
            ),
            asked.head.ready.eq(answers.valid & answers.ready),
        ]
        return m
