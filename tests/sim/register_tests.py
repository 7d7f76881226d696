"""cocotb tests of an 8-bit register, run by `test_verilator` (and not by pytest itself).

Tests with ``skip=True`` fail, and run only when they are asked for by name.
"""

import os
import random
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, Timer


@cocotb.test()
@cocotb.parametrize(value=[1, 42])
async def follows(dut, value):
    Clock(dut.clk, 10, unit="ns").start()
    dut.d.value = value
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    assert int(dut.q.value) == value


@cocotb.test()
async def read_after_edge(dut):
    """A register read right after the edge has its old value; after `ReadOnly`, the new one."""
    Clock(dut.clk, 10, unit="ns").start()
    dut.d.value = 1
    await RisingEdge(dut.clk)
    for value in range(2, 10):
        await ReadOnly()
        assert int(dut.q.value) == value - 1
        await Timer(1, "ns")
        dut.d.value = value
        await RisingEdge(dut.clk)
        assert int(dut.q.value) == value - 1


@cocotb.test()
async def draws(dut):
    Path("drawn").write_text(f"{random.random()} {os.environ.get('EXTRA')}")


@cocotb.test()
async def sees_ports_only(dut):
    assert not hasattr(dut, "hidden")


@cocotb.test(skip=True)
async def fails(dut):
    assert int(dut.q.value) == 256, "an 8-bit register cannot hold that"


@cocotb.test(skip=True)
async def violates_assertion(dut):
    Clock(dut.clk, 10, unit="ns").start()
    dut.d.value = 200
    for _ in range(4):
        await RisingEdge(dut.clk)


@cocotb.test(skip=True)
async def never_ends(dut):
    while True:
        await Timer(1, "us")
