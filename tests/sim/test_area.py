"""Gate counts of designs whose gate counts can be worked out on paper."""

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Assert, Module, Print
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from sim import area as area_module
from sim.area import area
from sim.process import ToolError


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("JALAPENO_CACHE", str(tmp_path / "a cache"))


PARITY = """\
module parity(input clk, input [31:0] d, output reg q);
  always @(posedge clk) q <= ^d;
endmodule
"""


def ripple_adder(width):
    return f"""\
module adder(input [{width - 1}:0] a, b, input carry, output [{width}:0] sum);
  wire [{width}:0] c = {{(a & b) | (c[{width - 1}:0] & (a ^ b)), carry}};
  assign sum = {{c[{width}], a ^ b ^ c[{width - 1}:0]}};
endmodule
"""


class Lookup(wiring.Component):
    """A memory of 32 x 8 bits, and a register behind the sum of what it gave last and an input."""

    def __init__(self, *, checks=False):
        self.checks = checks
        super().__init__(
            {"address": In(5), "data": In(8), "write": In(1), "sum": Out(8), "other": Out(8)}
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(shape=8, depth=32, init=[])
        write, read = memory.write_port(), memory.read_port(domain="comb")
        m.d.comb += [
            write.addr.eq(self.address),
            write.data.eq(self.data),
            write.en.eq(self.write),
            read.addr.eq(self.address),
        ]
        m.d.sync += self.sum.eq(read.data ^ self.data)
        if self.checks:
            m.d.comb += Assert(self.data * 3 != self.sum, "message")
            m.d.sync += Print("sum", self.sum * 5)
        return m


@pytest.mark.parametrize("width", [1, 8])
def test_ripple_adder(width):
    """A full adder is two XORs and three NANDs: 2 * 12 + 3 * 4 transistors, two gates per carry."""
    result = area(ripple_adder(width), "adder", language="verilog")
    assert result.by_type == {"$_XOR_": 2 * width, "$_NAND_": 3 * width}
    assert (result.cells, result.flops, result.total) == (5 * width, 0, 5 * width)
    assert result.transistors == 36 * width
    assert result.depth == 2 * width + 1


def test_parity():
    """31 XORs of 12 transistors in a tree of depth 5, then one register."""
    result = area(PARITY, "parity", language="verilog")
    assert (result.cells, result.flops, result.total) == (31, 1, 32)
    assert (result.transistors, result.depth) == (372, 5)


def test_parity_on_ecp5():
    """A tree of 32 leaves needs 11 nodes of 4 inputs."""
    result = area(PARITY, "parity", "ecp5", language="verilog")
    assert (result.cells, result.flops, result.transistors, result.depth) == (11, 1, None, None)


@pytest.mark.parametrize("memory", ["flops", "separate"])
def test_modules_are_flattened(memory):
    """Nothing that Yosys leaves behind to remember a module is counted."""
    twice = "parity a(.*), b(.clk, .d(e), .q(r));"
    top = f"module top(input clk, input [31:0] d, e, output q, r); {twice} endmodule"
    result = area(f"{PARITY}{top}", "top", language="verilog", memory=memory)
    assert (result.cells, result.flops) == (2 * 31, 2)
    assert result.total == sum(result.by_type.values())


def test_memory_as_flops_or_separate():
    text = rtlil.convert(Lookup())
    flops, separate = area(text, "top"), area(text, "top", memory="separate")
    assert (flops.memory_bits, flops.flops) == (0, 32 * 8 + 8)
    assert (separate.memory_bits, separate.flops) == (256, 8)
    assert separate.by_type == {"$_XOR_": 8, "$_SDFF_PP0_": 8}
    assert flops.cells > 300


def test_checks_are_free():
    plain, checked = (
        area(rtlil.convert(Lookup(checks=checks)), "top", memory="separate")
        for checks in (False, True)
    )
    assert plain.by_type == checked.by_type


def test_results_are_cached(monkeypatch):
    first = area(PARITY, "parity", language="verilog")
    monkeypatch.setattr(area_module, "execute", None)
    assert area(PARITY, "parity", language="verilog") == first
    with pytest.raises(TypeError):
        area(PARITY + "\n", "parity", language="verilog")


def test_errors_of_yosys_are_shown():
    with pytest.raises(ToolError, match=r"(?s)log /.*yosys.log\n.*syntax error"):
        area("module module", "top", language="verilog")
    with pytest.raises(ToolError, match="Module `misspelt' not found"):
        area(PARITY, "misspelt", language="verilog")


def test_latch_is_refused():
    latch = "module latch(input e, d, output reg q); always @* if (e) q = d; endmodule"
    with pytest.raises(ToolError, match=r"neither gates nor flip-flops: .*DLATCH"):
        area(latch, "latch", language="verilog")


def test_time_limit():
    with pytest.raises(ToolError, match="took longer"):
        area(ripple_adder(64), "adder", language="verilog", timeout=0.01)
