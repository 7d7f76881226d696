"""What a sweep is: the contents of its file, see docs/sweeps.md."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rtl.config import DEFAULT_PRESET, TileConfig
from sim.sweep.energy import EnergyTable, default_table, read_table
from sim.sweep.versions import nextpnr
from sim.sweep.workloads import Limits, Workload

LIMIT = "limits."
"""What the name of an axis begins with that is a limit at run time."""

AXES: Mapping[str, str] = dict.fromkeys(TileConfig.model_fields, "field") | {
    f"{LIMIT}{name}": "limit" for name in Limits.model_fields
}
"""What can be varied."""


class SpecError(ValueError):
    """A specification was refused; the message is one sentence that says what is allowed."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Range(_Strict):
    """Whole numbers from `low` to `high`, `step` apart, or powers of two."""

    low: int
    high: int
    step: int = Field(1, ge=1)
    powers: bool = False

    def values(self) -> list[int]:
        """Return them all."""
        numbers = range(self.low, self.high + 1, self.step)
        return [n for n in numbers if not self.powers or n.bit_count() == 1]


class Random(_Strict):
    """Points drawn at random, each axis by itself."""

    points: int = Field(ge=1, le=100_000)
    seed: int = 0
    axes: dict[str, Any]


class Measure(_Strict):
    """What is measured beside the workload.

    Attributes
    ----------
    lint
        Whether Verilator and slang read the Verilog, and must find nothing.
    area
        Whether gates are counted.
    parts
        Parts of the tile that are counted; by default all.
    ecp5
        Whether LUTs of an ECP5 are counted too.
    frequency
        Whether nextpnr-ecp5 places and routes the block.
    liberty
        A Liberty file, for µm²; relative to the specification.
    """

    lint: bool = True
    area: bool = True
    parts: list[str] | None = None
    ecp5: bool = False
    frequency: bool = False
    liberty: str | None = None

    @property
    def content(self) -> dict[str, Any]:
        """Everything that changes a result: the Liberty file's bytes, and tools of its own."""
        content = self.model_dump(exclude={"liberty"})
        if self.liberty is not None:
            content["liberty"] = hashlib.sha256(Path(self.liberty).read_bytes()).hexdigest()
        if self.frequency:
            content["nextpnr-ecp5"] = nextpnr()
        return content


class Objective(_Strict):
    """A metric of one workload, as ``"WORKLOAD.METRIC"`` names it."""

    workload: str
    metric: str
    maximise: bool


class Search(_Strict):
    """A search instead of a list: Optuna proposes points.

    Attributes
    ----------
    trials
        Configurations that are tried at most.
    batch
        Of these at a time; they do not know of each other's results.
    sampler, seed
        How they are proposed.
    maximise, minimise
        Objectives, ``"WORKLOAD.METRIC"``.
    axes
        What is varied.
    """

    trials: int = Field(ge=1, le=100_000)
    batch: int = Field(4, ge=1)
    sampler: Literal["tpe", "nsga2", "random"] = "tpe"
    seed: int = 0
    maximise: list[str] = []
    minimise: list[str] = []
    axes: dict[str, Any]

    @property
    def objectives(self) -> list[Objective]:
        """All objectives, those to maximise first."""
        return [
            Objective(workload=workload, metric=metric, maximise=maximise)
            for names, maximise in ((self.maximise, True), (self.minimise, False))
            for workload, _, metric in (name.rpartition(".") for name in names)
        ]


class Spec(_Strict):
    """A sweep.

    Attributes
    ----------
    name, title
        What it is called, and a line for people.
    preset, base
        Configuration to start from, and fields that differ in all points.
    grid
        Axes and their values; all combinations become points.
    point
        Points one by one.
    random
        Points drawn at random.
    workload
        What runs, each on all points.
    measure
        What is measured beside that.
    search
        Instead of grid, point and random.
    energy
        Table of energies, relative to the specification; by default that of `sim.sweep.energy`.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    title: str = ""
    preset: str = DEFAULT_PRESET
    base: dict[str, Any] = {}
    grid: dict[str, Any] = {}
    point: list[dict[str, Any]] = []
    random: Random | None = None
    workload: list[Workload] = Field(min_length=1)
    measure: Measure = Measure()
    search: Search | None = None
    energy: str | None = None

    @property
    def table(self) -> EnergyTable:
        """The table of energies."""
        return read_table(Path(self.energy)) if self.energy else default_table()


def domain(axis: str, values: Any) -> list[Any]:
    """Return the values that an axis can have, from a list or a range.

    Raises
    ------
    SpecError
        There are none.
    """
    if isinstance(values, Mapping):
        try:
            values = Range.model_validate(dict(values)).values()
        except ValidationError as error:
            raise SpecError(f"{axis}: {sentence(error)}") from None
    if not isinstance(values, list) or not values:
        raise SpecError(
            f"{axis} is {json.dumps(values)}; it must be a list of values, or a range such as "
            "{ low = 2, high = 8, step = 2 }."
        )
    return values


def sentence(error: ValidationError) -> str:
    """Return the first complaint as a sentence: key, value, what is allowed."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"]) or "the file"
    message = first["msg"][:1].lower() + first["msg"][1:]
    if first["type"] == "missing":
        return f"{place} is missing."
    if first["type"] == "extra_forbidden":
        return f"there is no key {place}."
    value = json.dumps(first["input"], ensure_ascii=False, default=str)
    return f"{place} is {value if len(value) < 80 else value[:77] + '...'}; {message}."
