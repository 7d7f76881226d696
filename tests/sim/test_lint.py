"""Both readers accept good Verilog, generated or not, and object to bad."""

import pytest
from amaranth.hdl import Module, signed
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from gen import waivers
from gen.verilog import emit
from rtl.config import TileConfig
from sim.lint import LintError, lint, slang

GOOD = "module good(input [3:0] a, output [3:0] b);\n  assign b = ~a;\nendmodule\n"

BAD = {
    "WIDTHTRUNC": GOOD.replace("~a", "{a, a}"),
    "WIDTHEXPAND": GOOD.replace("~a", "a[1:0]"),
    "UNUSEDSIGNAL": GOOD.replace("~a", "4'd0"),
    "UNDRIVEN": GOOD.replace("= ~a", "= ~a & c").replace("  ", "  wire [3:0] c;\n  ", 1),
    "MULTIDRIVEN": GOOD.replace("assign b = ~a;", "assign b = ~a;\n  assign b = a;"),
    "LATCH": GOOD.replace("output", "output reg").replace(
        "assign b = ~a;", "always @* if (a[0]) b = a;"
    ),
    "UNOPTFLAT": GOOD.replace("~a", "~b & a"),
    "PINMISSING": GOOD + "module top(input [3:0] a);\n  good good(.a(a));\nendmodule\n",
    "syntax error": GOOD.replace("~a", "~"),
    "Cannot find file containing module": GOOD.replace("assign b = ~a;", "sub sub(a, b);"),
}

BAD_FOR_SLANG = {
    "unused port 'a'|unused port signal 'a'": BAD["UNUSEDSIGNAL"],
    "expected expression": BAD["syntax error"],
    "unknown module": BAD["Cannot find file containing module"],
    "multiple": BAD["MULTIDRIVEN"].replace("output", "output logic"),
}


class Sample(wiring.Component):
    """What generated Verilog is made of: a queue in memory, an FSM, arithmetic, an array."""

    def __init__(self):
        super().__init__(
            {
                "items": In(stream.Signature(signed(8))),
                "results": Out(stream.Signature(signed(12))),
                "mode": In(2),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = fifo.SyncFIFOBuffered(width=8, depth=4)
        wiring.connect(m, wiring.flipped(self.items), queue.w_stream)
        item = queue.r_data.as_signed()
        with m.FSM():
            with m.State("WAIT"), m.If(queue.r_rdy & (self.mode != 0)):
                with m.Switch(self.mode):
                    with m.Case(1):
                        m.d.sync += self.results.payload.eq(self.results.payload + item)
                    with m.Case(2):
                        m.d.sync += self.results.payload.eq(item >> self.mode)
                m.next = "GIVE"
            with m.State("GIVE"):
                m.d.comb += self.results.valid.eq(1)
                with m.If(self.results.ready):
                    m.d.comb += queue.r_en.eq(1)
                    m.next = "WAIT"
        return m


@pytest.fixture(scope="module")
def generated():
    design = emit(Sample(), "sample", TileConfig())
    return {f"{design.top}.v": design.text}


@pytest.mark.parametrize("check", [lint, slang])
def test_good_verilog(check, tmp_path):
    check({"good.v": GOOD})
    (tmp_path / "a dir").mkdir()
    (tmp_path / "a dir" / "good.v").write_text(GOOD)
    check([tmp_path / "a dir" / "good.v"])


@pytest.mark.parametrize("fault", BAD)
def test_verilator_finds(fault):
    with pytest.raises(LintError, match=rf"(?s)Verilator found faults:\n.*{fault}"):
        lint({"good.v": BAD[fault]})


@pytest.mark.parametrize("fault", [fault for fault in BAD if fault != "UNUSEDSIGNAL"])
def test_waivers_hide_no_fault(fault):
    with pytest.raises(LintError, match=fault):
        lint({"good.v": BAD[fault]}, waivers.vlt())


@pytest.mark.parametrize("fault", BAD_FOR_SLANG)
def test_slang_finds(fault):
    with pytest.raises(LintError, match=rf"(?s)slang found faults:\ngood.v:.*({fault})"):
        slang({"good.v": BAD_FOR_SLANG[fault]})


def test_verilator_accepts_generated_verilog(generated):
    lint(generated, waivers.vlt())


def test_slang_accepts_generated_verilog(generated):
    slang(generated)


def test_every_waiver_has_a_reason():
    assert all(waiver.reason.endswith(".") for waiver in waivers.WAIVERS)


def test_top_is_chosen():
    two = {"good.v": GOOD + GOOD.replace("good", "other")}
    with pytest.raises(LintError, match="MULTITOP"):
        lint(two)
    with pytest.raises(LintError, match="DECLFILENAME"):
        lint(two, top="good")
    lint(two, waivers.vlt(), top="good")


def test_long_report_is_cut():
    many = "".join(f"  wire spare{i};\n" for i in range(100))
    with pytest.raises(LintError, match=r"\.\.\. and \d+ more lines") as error:
        lint({"good.v": GOOD.replace("  assign", f"{many}  assign")})
    assert len(str(error.value).splitlines()) == 62
