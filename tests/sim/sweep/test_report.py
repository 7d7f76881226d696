"""The report: what is on it, that it needs nothing else, and that a browser shows it."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from sim.report import write
from sim.report.data import front, sort
from sim.sweep.energy import DEFAULT, default_table
from sim.sweep.measure import failure
from sim.sweep.points import expand
from sim.sweep.store import Store
from tests.sim.conftest import Run
from tests.sim.sweep import fake

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

GRID = {"lanes": [2, 3, 4, 8], "vec_lanes": [1, 4], "limits": {"pairing": [True, False]}}


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("report") / "store.sqlite"
    spec = fake.spec(grid=GRID)
    with Store(path) as opened:
        for number, point in enumerate(expand(spec)):
            if point.refusal:
                opened.put(failure(point, "fake", f"<b>{point.refusal}</b>"))
                continue
            lanes, vec = point.fields["lanes"], point.fields["vec_lanes"]
            pairing = point.workload.limits.pairing
            cycles = (4800 / lanes + 100 / vec) * (1 if pairing else 1.5)
            metrics = {
                "cycles": cycles, "throughput": 1e6 / cycles, "least_cycles": 500,
                "roofline": 500 / cycles, "cells": 1000 * lanes + 3000 * vec + number,
                "operations": 64_000, "needed_bytes": 8_000, "peak_operations": 32 * lanes,
                "peak_bytes": 16, "seconds": 1.5,
            }  # fmt: skip
            opened.put(fake.row(point, **metrics).priced(default_table()))
    return path


@pytest.fixture(scope="module")
def report(store: Path, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    files = write(store, folder, title="A title & more")
    assert all(file.is_file() for file in files)
    return folder


class Reader(HTMLParser):
    """Collects what a page refers to, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.text = ""
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent += tag in ("script", "style")
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        self.text += "" if self._silent else data


def read(page: Path) -> Reader:
    reader = Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    return reader


def test_the_page_needs_nothing_else(report: Path) -> None:
    assert [link for link in read(report / "index.html").links if not link.startswith("#")] == []


def test_what_the_page_says(report: Path) -> None:
    text = read(report / "index.html").text
    for words in (
        "A title & more",
        "12 points of 6 configurations were generated",
        "4 failed and are listed at the end.",
        "<b>lanes is 3; it must be an even number from 2 to 512.</b>",  # as text, not as HTML
        "Throughput against area.",
        "Cycles against area.",
        "Roofline.",
        "What lanes does",
        "What pairing does",
        "two-input gates and inverters, memories apart",
        "7 nm, HBM2",
    ):
        assert words in text


def test_the_front_is_what_nothing_beats(store: Path) -> None:
    with Store(store, existing=True) as opened:
        (group,) = sort(opened.rows()).groups
    for gain, sign in (("throughput", 1), ("cycles", -1)):
        best = front(group.rows, "cells", gain)
        assert len(best) >= 3
        for row in group.rows:
            beaten = any(
                other.metrics["cells"] <= row.metrics["cells"]
                and sign * other.metrics[gain] >= sign * row.metrics[gain]
                and other is not row
                for other in group.rows
            )
            assert beaten != (row in best)


def test_pictures_and_table(report: Path) -> None:
    names = {file.name for file in report.glob("*.png")}
    assert names == {
        f"gemv-{kind}.png"
        for kind in ("pareto-throughput", "pareto-cycles", "roofline", "axes", "parallel")
    }
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in report.glob("*.png"))
    with (report / "points.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 16
    assert {line["status"] for line in lines} == {"ok", "failed"}
    assert {line["limits.pairing"] for line in lines} == {"on", "off"}


def test_another_table_of_energies(store: Path, tmp_path: Path) -> None:
    table = tmp_path / "table.toml"
    table.write_text(DEFAULT.read_text().replace("pj = 0.025", "pj = 1000000"))
    write(store, tmp_path / "out", energy=table)
    with (tmp_path / "out" / "points.csv").open() as file:
        energies = [float(line["energy_pj"]) for line in csv.DictReader(file) if line["energy_pj"]]
    assert len(energies) == 12
    assert min(energies) > 1e9


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium to look at the page with")
def test_a_browser_shows_it(report: Path, tmp_path: Path) -> None:
    picture = tmp_path / "page.png"
    assert BROWSER is not None
    common = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu",
              f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=10000",
              "--window-size=1240,2600"]  # fmt: skip
    page = (report / "index.html").as_uri()
    done = subprocess.run(
        [*common, "--dump-dom", page], capture_output=True, text=True, timeout=120, check=True
    )
    assert "data-error" not in done.stdout
    # Every plot was drawn: points of the fronts, lines, roofs.
    assert done.stdout.count('class="main-svg"') >= 7
    assert len(re.findall(r'class="point"', done.stdout)) >= 12 * 5
    assert "parcoords" in done.stdout
    subprocess.run([*common, f"--screenshot={picture}", page], check=True, timeout=120,
                   capture_output=True)  # fmt: skip
    assert picture.stat().st_size > 100_000


def test_command(jalapeno: Run, store: Path) -> None:
    status, out, err = jalapeno("report", str(store), "--output", "here", "--json")
    assert (status, err) == (0, "")
    files = json.loads(out)["files"]
    assert files[0] == "here/index.html"
    assert Path(files[0]).is_file()


def test_command_refuses_what_is_no_store(jalapeno: Run, tmp_path: Path) -> None:
    status, out, err = jalapeno("report", "nothing.sqlite")
    assert (status, out) == (2, "")
    assert err == "jalapeno: nothing.sqlite does not exist; it must be a file that a sweep made.\n"
    assert not (tmp_path / "build").exists()
