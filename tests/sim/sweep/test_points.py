"""Which points a sweep has, and what makes two of them the same."""

from __future__ import annotations

from rtl.config import PRESETS
from sim.sweep.points import expand
from tests.sim.sweep.fake import spec

NANO = PRESETS["nano"]
MAC = {"name": "gemv", "kind": "mac"}


def test_a_grid_is_every_combination() -> None:
    points = expand(spec())
    assert [(p.fields["lanes"], p.fields["vec_lanes"]) for p in points[:5]] == [
        (2, 1), (2, 2), (2, 4), (2, 8), (4, 1)
    ]  # fmt: skip
    assert len(points) == len({point.config_hash for point in points}) == 16
    assert points[0].config == NANO.replace(lanes=2, vec_lanes=1)


def test_without_axes_there_is_one_point_per_workload() -> None:
    points = expand(spec(grid={}, workload=[MAC, MAC | {"name": "gemm", "rows": 0}]))
    assert [point.workload.name for point in points] == ["gemv", "gemm"]
    assert {point.config_hash for point in points} == {NANO.hash}


def test_the_same_configuration_written_twice_is_one_point() -> None:
    points = expand(spec(grid={"mesh": ["2x1", [2, 1]]}, point=[{}]))
    assert [point.config_hash for point in points] == [NANO.hash]


def test_random_points_depend_on_the_seed_alone() -> None:
    def drawn(seed: int) -> list[tuple[str, str]]:
        axes = {"lanes": {"low": 2, "high": 64, "step": 2}, "limits": {"pairing": [True, False]}}
        random = {"points": 20, "seed": seed, "axes": axes}
        return [(p.config_hash, p.workload_hash) for p in expand(spec(grid={}, random=random))]

    assert drawn(1) == drawn(1) != drawn(2)
    assert len(drawn(1)) > 10


def test_hashes_are_of_what_changes_results() -> None:
    (point,) = expand(spec(grid={}))

    def other(**changes):
        return expand(spec(**{"grid": {}, **changes}))[0]

    assert other(workload=[MAC | {"name": "called otherwise"}]).workload_hash == point.workload_hash
    assert other(name="another").workload_hash == point.workload_hash
    changed = [
        other(workload=[MAC | {"rows": 2}]),
        other(base={"limits": {"pairing": False}}),
        other(measure={"ecp5": True}),
    ]
    hashes = {point.workload_hash, *(p.workload_hash for p in changed)}
    assert len(hashes) == 4
    assert {p.config_hash for p in changed} == {NANO.hash}


def test_a_liberty_file_counts_by_its_bytes(tmp_path) -> None:
    hashes = []
    for name, text in (("a.lib", "1"), ("b.lib", "1"), ("c.lib", "2")):
        (tmp_path / name).write_text(text)
        (point,) = expand(spec(grid={}, measure={"liberty": str(tmp_path / name)}))
        hashes.append(point.workload_hash)
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_model_counts_by_its_bytes(tmp_path) -> None:
    file = tmp_path / "model.bin"
    hashes = []
    for text in ("1", "1", "2"):
        file.write_text(text)
        workload = {"name": "a", "kind": "model", "model": str(file)}
        hashes.append(expand(spec(grid={}, workload=[workload]))[0].workload_hash)
    assert hashes[0] == hashes[1] != hashes[2]


def test_what_cannot_be_is_a_point_with_its_reason() -> None:
    grid = {"lanes": [2, 3], "limits": {"window": [1]}}
    points = expand(spec(grid=grid))
    assert [point.refusal for point in points] == [
        "gemv has no use for the limit window.",
        "lanes is 3; it must be an even number from 2 to 512.",
    ]
    (point, other) = expand(spec(grid={"limits": {"pairing": [True, 7]}}))
    assert not point.refusal
    assert other.refusal == 'limits are {"pairing": 7}; one of them is out of range.'
    assert point.workload_hash != other.workload_hash
