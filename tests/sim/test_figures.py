"""Figures, reports and how they are shown."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from rtl.config import PRESETS
from sim.figures import Figure, format_number, report

CONFIG = PRESETS["nano"]


def test_floors_ceilings_and_figures_without_target() -> None:
    assert Figure("a", 0.97, "", "w", target=0.97).met
    assert not Figure("a", 0.969, "", "w", target=0.97).met
    assert Figure("a", 900, "cells", "w", target=900, at_most=True).met
    assert not Figure("a", 901, "cells", "w", target=900, at_most=True).met
    assert Figure("a", 1, "", "w").met


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_figures_are_finite(number: float) -> None:
    with pytest.raises(ValueError, match="figure a is"):
        Figure("a", number, "", "w")
    with pytest.raises(ValueError, match="figure a is"):
        Figure("a", 1, "", "w", bound=number)


def test_report_has_the_fields_of_the_contract() -> None:
    figure = Figure("mac.gemm", 0.98, "", "512x512", bound=1.0, target=0.97)
    result = report(
        "mac", CONFIG, [figure, Figure("mac.x", 9, "cells", "dot", target=8, at_most=True)]
    )
    assert not result.met
    assert json.loads(json.dumps(result.to_dict())) == {
        "bench": "mac",
        "configuration": CONFIG.to_dict(),
        "hash": CONFIG.hash,
        "figures": [
            {
                "name": "mac.gemm",
                "value": 0.98,
                "unit": "",
                "bound": 1.0,
                "target": 0.97,
                "met": True,
                "workload": "512x512",
            },
            {
                "name": "mac.x",
                "value": 9,
                "unit": "cells",
                "bound": None,
                "target": 8,
                "met": False,
                "workload": "dot",
            },
        ],
    }


def test_table_shows_every_figure() -> None:
    text = io.StringIO()
    figures = [
        Figure("mac.gemm", 0.98, "", "512x512", bound=1.0, target=0.97),
        Figure("mac.cells", 6001, "cells", "dot", target=6000, at_most=True),
    ]
    Console(file=text, width=120).print(report("mac", CONFIG, figures).to_table())
    gemm, cells = [line for line in text.getvalue().splitlines() if "mac." in line]
    assert [cell.strip() for cell in gemm.split("│")[1:-1]] == [
        "mac.gemm", "0.98", "", "≥ 0.97", "yes", "1", "512x512",
    ]  # fmt: skip
    assert [cell.strip() for cell in cells.split("│")[1:-1]] == [
        "mac.cells", "6,001", "cells", "≤ 6,000", "no", "", "dot",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("number", "text"),
    [(1.0, "1"), (24068, "24,068"), (0.98765, "0.9877"), (31172.6, "31,173"), (1.9, "1.9")],
)
def test_numbers(number: float, text: str) -> None:
    assert format_number(number) == text
