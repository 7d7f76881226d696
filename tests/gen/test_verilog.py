"""Verilog emission: what is in the text, that it is the same hardware, and what is refused."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from amaranth.back import rtlil
from amaranth.hdl import DomainRenamer, EnableInserter, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from gen import waivers
from gen.verilog import HASH_CONSTANT, EmissionError, VerilogDesign, emit
from rtl.config import PRESETS
from rtl.leaf import Leaf
from sim.lint import lint, slang
from tests.gen.components import Accumulator, Block, Cell, Increment
from tests.refusals import REFUSALS

CONFIG = PRESETS["nano"]

pytestmark = REFUSALS


@pytest.fixture(scope="module")
def design() -> VerilogDesign:
    return emit(Block(), "block", CONFIG)


def bodies(text: str) -> list[str]:
    """Return the text of every module behind its name."""
    return [match[1] for match in re.finditer(r"^module \w+(.*?)^endmodule", text, re.M | re.S)]


def test_every_distinct_module_is_there_once(design: VerilogDesign) -> None:
    assert set(design.modules) == {
        "jalapeno_block",
        "jalapeno_block__twin",  # also the accumulator inside of every cell
        "cell_unit",
        "increment_1",
        "increment_2",
    }
    assert design.modules[0] == design.top == "jalapeno_block"
    assert tuple(re.findall(r"^module (\w+)", design.text, re.M)) == design.modules
    assert len(set(bodies(design.text))) == len(design.modules)
    assert len(re.findall(r"^  jalapeno_block__twin \w+ \($", design.text, re.M)) == 4
    assert len(re.findall(r"^  increment_1 \w+ \($", design.text, re.M)) == 3


def test_leaves_are_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    build = Increment.build
    monkeypatch.setattr(
        Increment, "build", lambda leaf, platform: built.append(leaf.step) or build(leaf, platform)
    )
    emit(Block(), "block", CONFIG)
    assert sorted(built) == [1, 2]


def prove_equivalent(gold: str, gate: str, top: str, tmp_path: Path) -> None:
    """Let Yosys prove the RTLIL module `gold` and the SystemVerilog module `top` equivalent."""
    (tmp_path / "gold.il").write_text(gold)
    (tmp_path / "gate.sv").write_text(gate)
    flatten = ["proc", "flatten", "memory_map", "opt_clean", "delete t:$print t:$check"]
    commands = [
        "read_rtlil gold.il",
        "hierarchy -top gold",
        *flatten,
        "design -stash gold",
        "read_verilog -sv gate.sv",
        f"hierarchy -top {top}",
        *flatten,
        "design -stash gate",
        "design -copy-from gold -as gold gold",
        f"design -copy-from gate -as gate {top}",
        "equiv_make gold gate equiv",
        "hierarchy -top equiv",
        "equiv_struct",
        "equiv_simple -undef",
        "equiv_induct -undef",
        "equiv_status -assert",
    ]
    # In a process of its own, because Yosys ends the process at the first error.
    program = (
        "import sys; from pyosys import libyosys as yosys; design = yosys.Design()\n"
        "for command in sys.stdin.read().splitlines(): yosys.run_pass(command, design)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        input="\n".join(commands),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    if "Equivalence successfully proven" not in result.stdout or result.returncode:
        raise AssertionError((result.stdout + result.stderr)[-2000:])


def test_it_is_the_same_hardware(design: VerilogDesign, tmp_path: Path) -> None:
    gold = rtlil.convert(Block(), name="gold", emit_src=False)
    prove_equivalent(gold, design.text, design.top, tmp_path)
    mutant = design.text.replace("total) + ", "total) - ", 1)
    assert mutant != design.text
    with pytest.raises(AssertionError, match="unproven"):
        prove_equivalent(gold, mutant, design.top, tmp_path)


def test_ports(design: VerilogDesign) -> None:
    ports = {port.name: (port.direction, port.width, port.signed) for port in design.ports}
    assert ports == {
        "clk": ("input", 1, False),
        "rst": ("input", 1, False),
        "i__payload": ("input", 10, False),
        "i__valid": ("input", 1, False),
        "i__ready": ("output", 1, False),
        "o__payload": ("output", 16, True),
        "o__valid": ("output", 1, False),
        "o__ready": ("input", 1, False),
    }


def test_configuration_is_stamped(design: VerilogDesign) -> None:
    assert f"{HASH_CONSTANT} = 48'h{CONFIG.hash};" in design.text
    assert f"// Configuration {CONFIG.hash}:\n//   pseudo_channels = 1\n" in design.text
    assert design.config is CONFIG


def test_no_escaped_names_no_attributes_no_origin(design: VerilogDesign) -> None:
    assert "\\" not in design.text
    assert "(*" not in design.text
    assert "Yosys" not in design.text
    assert "/" not in re.sub(r"^//.*|/\* empty \*/", "", design.text, flags=re.M)
    assert re.search(r"\breg \[7:0\] always_ = ", design.text)


def test_fields_of_structures_are_kept_on_demand(design: VerilogDesign) -> None:
    assert "i__payload__a" not in design.text
    assert "i__payload__a" in emit(Block(), "block", CONFIG, fields=True).text


def test_a_signal_with_a_dot_in_its_name_is_no_field() -> None:
    class Dotted(wiring.Component):
        i: In(4)
        o: Out(4)

        def elaborate(self, platform: Any) -> Module:
            m = Module()
            dotted, written = Signal(4, name="a.b"), Signal(4, name="a[0]")
            m.d.sync += [dotted.eq(self.i), written.eq(dotted)]
            m.d.comb += self.o.eq(written + 1)
            return m

    text = emit(Dotted(), "x", CONFIG).text
    assert "reg [3:0] a__b = 4'h0;" in text
    assert "reg [3:0] a_0 = 4'h0;" in text


def test_a_leaf_follows_a_renamed_domain() -> None:
    class Top(wiring.Component):
        o: Out(4)

        def elaborate(self, platform: Any) -> Module:
            m = Module()
            m.submodules.slow = slow = Sized(4)
            m.submodules.fast = DomainRenamer("fast")(fast := Sized(4))
            m.d.comb += self.o.eq(slow.o ^ fast.o)
            return m

    design = emit(Top(), "x", CONFIG)
    assert design.modules == ("jalapeno_x", "sized")
    assert {port.name for port in design.ports} == {"clk", "rst", "fast_clk", "fast_rst", "o"}
    assert design.text.count(".clk(fast_clk)") == design.text.count(".clk(clk)") == 1


def test_assertions_are_kept(design: VerilogDesign) -> None:
    assert design.text.count("assert (") == 1  # in the one accumulator


def test_lint_has_no_complaint(design: VerilogDesign) -> None:
    lint({"block.sv": design.text}, waivers.vlt(), top=design.top)


def test_second_front_end_has_no_complaint(design: VerilogDesign) -> None:
    slang({"block.sv": design.text})


def test_same_bytes_for_every_hash_seed_and_directory(
    design: VerilogDesign, tmp_path: Path
) -> None:
    program = (
        "import sys; from gen.verilog import emit; from rtl.config import PRESETS;"
        "from tests.gen.components import Block;"
        "sys.stdout.write(emit(Block(), 'block', PRESETS['nano']).text)"
    )
    root = Path(__file__).parents[2]
    for seed in ("0", "12345"):
        result = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert result.stdout == design.text


def test_a_leaf_can_be_the_top() -> None:
    design = emit(Cell(), "cell", CONFIG)
    assert design.top == "jalapeno_cell"
    assert "increment_1" in design.modules
    # The constant `ready` is no port.
    assert {port.name for port in design.ports} == {
        "clk", "rst", "pair", "o", "extra__payload", "extra__valid",
    }  # fmt: skip


def test_combinational_component_has_no_clock() -> None:
    assert [port.name for port in emit(Increment(), "step", CONFIG).ports] == ["i", "o"]


class Plain(wiring.Component):
    """A register between one input and one output, whose names and widths the test gives."""

    def __init__(self, i: str, o: str, width: int = 4) -> None:
        super().__init__({i: In(width), o: Out(width)})
        self.names = i, o

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        i, o = (getattr(self, name) for name in self.names)
        m.d.sync += o.eq(i)
        return m


@pytest.mark.parametrize(
    ("port", "reason"),
    [
        ("clk", "which is the name of its clock or reset"),
        ("rst", "which is the name of its clock or reset"),
        ("module", "which is a word of Verilog, C++ or Verilator"),
        ("logic", "which is a word of Verilog, C++ or Verilator"),
        ("this", "which is a word of Verilog, C++ or Verilator"),
        ("trace", "which is a word of Verilog, C++ or Verilator"),
        ("jalapeno_x", "which is also the name of its module"),
    ],
)
def test_port_names_that_break_later_tools_are_refused(port: str, reason: str) -> None:
    with pytest.raises(EmissionError, match=rf"Plain has a port {port}, {re.escape(reason)}\.$"):
        emit(Plain(port, "o"), "x", CONFIG)


def test_ports_without_bits_are_refused() -> None:
    with pytest.raises(EmissionError, match=r"port i of no bits"):
        emit(Plain("i", "o", width=0), "x", CONFIG)


def test_module_name_must_be_legal() -> None:
    with pytest.raises(EmissionError, match=r'"jalapeno_a-b", the module of Increment, is no leg'):
        emit(Increment(), "a-b", CONFIG)


def test_keyword_as_leaf_port_is_refused() -> None:
    class Bad(Leaf):
        reg: In(4)
        module_name = "bad"

    class Top(wiring.Component):
        i: In(4)

        def elaborate(self, platform: Any) -> Module:
            m = Module()
            m.submodules.bad = bad = Bad()
            m.d.comb += bad.reg.eq(self.i)
            return m

    with pytest.raises(EmissionError, match="Bad has a port reg, which is a word of"):
        emit(Top(), "x", CONFIG)


class Pair(wiring.Component):
    """Two leaves, given by the test."""

    o: Out(16)

    def __init__(self, first: Leaf, second: Leaf) -> None:
        super().__init__()
        self.leaves = first, second

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules += self.leaves
        m.d.comb += self.o.eq(self.leaves[0].o ^ self.leaves[1].o)
        return m


class Sized(Leaf):
    """A leaf whose name does not tell its width, which is a mistake."""

    def __init__(self, width: int, more: bool = False) -> None:
        super().__init__({"o": Out(width)} | ({"more": In(2)} if more else {}))

    module_name = "sized"

    def build(self, platform: Any) -> Module:
        m = Module()
        m.d.sync += self.o.eq(self.o + 1)
        return m


def test_leaves_of_one_name_must_have_the_same_ports() -> None:
    with pytest.raises(EmissionError, match=r"called sized, but o has 4 bits in one and 5 in the"):
        emit(Pair(Sized(4), Sized(5)), "x", CONFIG)
    with pytest.raises(EmissionError, match=r"called sized, but only one has more\."):
        emit(Pair(Sized(4), Sized(4, more=True)), "x", CONFIG)


def test_a_leaf_cannot_contain_itself() -> None:
    class Loop(Sized):
        module_name = "loop"

        def build(self, platform: Any) -> Module:
            m = Module()
            m.submodules.again = again = Loop(4)
            m.d.comb += self.o.eq(again.o)
            return m

    with pytest.raises(EmissionError, match=r"The leaf loop contains itself\."):
        emit(Pair(Loop(4), Sized(4)), "x", CONFIG)


def test_a_leaf_has_one_clock_domain() -> None:
    class Fast(Sized):
        module_name = "fast"

        def build(self, platform: Any) -> Module:
            m = Module()
            m.d.fast += self.o.eq(self.o + 1)
            return m

    with pytest.raises(EmissionError, match="has a port fast_clk beyond its signature"):
        emit(Pair(Fast(4), Sized(4)), "x", CONFIG)


def test_twins_under_one_name_are_numbered_apart() -> None:
    """Submodules that differ keep apart where cutting off their numbers leaves the same name."""

    class Half(wiring.Component):
        o: Out(4)

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

        def elaborate(self, platform: Any) -> Module:
            m = Module()
            m.d.sync += self.o.eq(self.o + self.step)
            return m

    class Four(wiring.Component):
        o: Out(16)

        def elaborate(self, platform: Any) -> Module:
            m = Module()
            for n in range(4):
                m.submodules[f"half{n}"] = half = Half(1 + n % 2)
                m.d.comb += self.o.word_select(n, 4).eq(half.o)
            return m

    assert emit(Four(), "four", CONFIG).modules == (
        "jalapeno_four",
        "jalapeno_four__half",
        "jalapeno_four__half_2",
    )


def test_an_enable_inserter_keeps_twins_apart() -> None:
    class Gated(wiring.Component):
        enable: In(1)
        o: Out(12)

        def elaborate(self, platform: Any) -> Module:
            m = Module()
            free, gated = Accumulator(), Accumulator()
            m.submodules.free = free
            m.submodules.gated = EnableInserter(self.enable)(gated)
            m.d.comb += self.o.eq(free.total ^ gated.total)
            return m

    assert emit(Gated(), "x", CONFIG).modules == (
        "jalapeno_x",
        "jalapeno_x__free",
        "jalapeno_x__gated",
    )
