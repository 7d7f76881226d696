"""The points of a sweep: which there are, and what each is called for ever."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rtl.config import ConfigError, TileConfig, preset
from sim import cache
from sim.sweep.spec import LIMIT, Measure, Spec, domain
from sim.sweep.workloads import Limits, Workload, block_of, workload_hash

Key = tuple[str, str, str]
"""Hashes of configuration, workload and tools: what a result belongs to."""


@dataclass(frozen=True)
class Point:
    """One thing to measure; plain data, so that it can go to another machine.

    Attributes
    ----------
    fields
        Every field of the configuration, valid or not.
    workload
        What runs, with its limits.
    measure
        What else is measured.
    varied
        Axes of the sweep and their values here.
    refusal
        Why it cannot be measured, where that is known beforehand.
    """

    fields: Mapping[str, Any]
    workload: Workload
    measure: Measure
    varied: Mapping[str, Any]
    refusal: str = ""

    @property
    def config(self) -> TileConfig:
        """The configuration.

        Raises
        ------
        ConfigError
            There is none with these fields.
        """
        return TileConfig.from_dict(self.fields)

    @property
    def config_hash(self) -> str:
        """Hash of the configuration; of its fields, where they are refused."""
        try:
            return self.config.hash
        except ConfigError:
            return cache.content_key(dict(self.fields))[:12]

    @property
    def workload_hash(self) -> str:
        """Hash of what is run and measured."""
        return workload_hash(self.workload, self.measure.content)

    def key(self, tools: str) -> Key:
        """Return what its result belongs to, measured with tools of a hash."""
        return self.config_hash, self.workload_hash, tools

    @property
    def build(self) -> tuple[str, str]:
        """What must be built before it can run; points of the same build share that."""
        return block_of(self.workload), self.config_hash


def expand(spec: Spec) -> list[Point]:
    """Return all points of a sweep without search, each once, in the order of the file."""
    combinations = list(_combinations(spec)) or [{}]
    return points(spec, combinations)


def points(spec: Spec, combinations: list[dict[str, Any]]) -> list[Point]:
    """Return the points of combinations of axes: each with every workload of the sweep."""
    found: dict[tuple[str, str], Point] = {}
    for values in combinations:
        for workload in spec.workload:
            point = _point(spec, values, workload)
            found.setdefault((point.config_hash, point.workload_hash), point)
    return list(found.values())


def _combinations(spec: Spec) -> Iterator[dict[str, Any]]:
    if spec.grid:
        axes = {axis: domain(axis, values) for axis, values in spec.grid.items()}
        for values in itertools.product(*axes.values()):
            yield dict(zip(axes, values, strict=True))
    yield from (dict(point) for point in spec.point)
    if spec.random:
        generator = random.Random(spec.random.seed)
        axes = {axis: domain(axis, values) for axis, values in spec.random.axes.items()}
        for _ in range(spec.random.points):
            yield {axis: generator.choice(values) for axis, values in axes.items()}


def _point(spec: Spec, values: Mapping[str, Any], workload: Workload) -> Point:
    chosen = {**spec.base, **values}
    limits = {
        axis.removeprefix(LIMIT): value for axis, value in chosen.items() if axis.startswith(LIMIT)
    }
    fields = {axis: value for axis, value in chosen.items() if not axis.startswith(LIMIT)}
    fields = preset(spec.preset).to_dict() | fields
    refusal = ""
    if strangers := sorted(limits.keys() - workload.allowed_limits):
        refusal = f"{workload.name} has no use for the limit {strangers[0]}."
    try:
        limited = Limits.model_validate({**workload.limits.given(), **limits})
    except ValueError:
        limited = Limits.model_construct(**{**workload.limits.given(), **limits})
        refusal = f"limits are {json.dumps(limits)}; one of them is out of range."
    try:
        fields = TileConfig.from_dict(fields).to_dict()  # one way to write each configuration
    except ConfigError as error:
        refusal = str(error)
    limited_workload = workload.model_copy(update={"limits": limited})
    return Point(fields, limited_workload, spec.measure, dict(values), refusal)
