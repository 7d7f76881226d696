"""Which specifications are refused, and in which words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sim.sweep.metrics import METRICS
from sim.sweep.points import expand
from sim.sweep.read import spec_from_dict, spec_from_file
from sim.sweep.spec import SpecError, domain
from tests.sim.sweep.fake import SPEC

ROOT = Path(__file__).parents[3]
MAC = {"name": "a", "kind": "mac"}
SEARCH = {"trials": 3, "maximise": ["gemv.roofline"], "axes": {"lanes": [2, 4]}}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": "a b"}, 'name is "a b"; string should match'),
        ({"colour": 1}, "there is no key colour."),
        ({"preset": "tiny"}, 'preset is "tiny"; it must be one of nano, small, base, slice.'),
        ({"grid": {"lane": [2]}}, "There is no field or limit lane; did you mean lanes?"),
        ({"grid": {"limits": {"windw": [2]}}}, "There is no field or limit limits.windw;"),
        ({"grid": {"lanes": []}}, "lanes is []; it must be a list of values, or a range"),
        ({"grid": {"lanes": {"low": 2}}}, "lanes: high is missing."),
        ({"base": {"lans": 2}}, "There is no field or limit lans; did you mean lanes?"),
        ({"point": [{"lans": 2}]}, "There is no field or limit lans; did you mean lanes?"),
        ({"workload": []}, "workload is []; list should have at least 1 item"),
        ({"workload": [MAC, MAC]}, "two workloads are called a; each needs a name of its own."),
        ({"workload": [{"name": "a", "kind": "cpu"}]}, "workload.0 is"),
        ({"workload": [MAC | {"rows": -1}]}, "workload.0.mac.rows is -1; input should be greater"),
        ({"energy": "none.toml"}, "none.toml does not exist; it must be a file."),
        ({"measure": {"liberty": "no.lib"}}, "no.lib does not exist; it must be a file."),
        ({"search": SEARCH}, "a search proposes points itself; leave out grid, point and random."),
        ({"search": SEARCH | {"maximise": []}, "grid": {}}, "search has no objective;"),
        ({"search": SEARCH | {"axes": {}}, "grid": {}}, "search.axes is empty;"),
        (
            {"search": SEARCH | {"maximise": ["gemm.cycles"]}, "grid": {}},
            "There is no workload gemm; did you mean gemv?",
        ),
        (
            {"search": SEARCH | {"maximise": ["gemv.speed"]}, "grid": {}},
            "There is no metric speed;",
        ),
    ],
)
def test_refusals(changes: dict, sentence: str) -> None:
    with pytest.raises(SpecError) as refused:
        spec_from_dict(SPEC | changes)
    assert sentence in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_the_file_is_named(tmp_path) -> None:
    file = tmp_path / "spec.toml"
    file.write_text('name = "a"\n')
    with pytest.raises(SpecError, match=r"spec.toml: workload is missing"):
        spec_from_file(file)


def test_files_are_relative_to_the_specification(tmp_path) -> None:
    (tmp_path / "cells.lib").write_text("library(a) {}")
    file = tmp_path / "spec.toml"
    file.write_text(
        'name = "a"\n[measure]\nliberty = "cells.lib"\n[[workload]]\nname = "a"\nkind = "mac"\n'
    )
    assert spec_from_file(file).measure.liberty == str(tmp_path / "cells.lib")


def test_domains() -> None:
    assert domain("lanes", [4, 2]) == [4, 2]
    assert domain("lanes", {"low": 2, "high": 8, "step": 2}) == [2, 4, 6, 8]
    assert domain("vec_lanes", {"low": 1, "high": 20, "powers": True}) == [1, 2, 4, 8, 16]


@pytest.mark.parametrize("file", sorted((ROOT / "docs" / "studies").glob("*.toml")), ids=str)
def test_studies_are_accepted(file: Path) -> None:
    spec = spec_from_file(file)
    assert spec.name == file.stem
    assert not any(point.refusal for point in expand(spec))


def test_the_examples_of_the_documentation_are_accepted(tmp_path) -> None:
    text = (ROOT / "docs" / "sweeps.md").read_text()
    whole, search = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "cells.lib").write_text("library(a) {}")
    file = tmp_path / "spec.toml"
    file.write_text(whole)
    assert len(expand(spec_from_file(file))) > 12 + 1
    workload = whole[whole.index("[[workload]]") :]
    file.write_text(f'name = "example"\n{search}\n{workload}')
    wanted = spec_from_file(file).search
    assert wanted is not None
    assert [objective.maximise for objective in wanted.objectives] == [True, False]


def test_every_metric_of_the_documentation_is_one() -> None:
    text = (ROOT / "docs" / "sweeps.md").read_text()
    for name in ("cycles", "least_cycles", "roofline", "cells", "depth", "lut4", "area_um2"):
        assert f"`{name}`" in text
        assert name in METRICS
