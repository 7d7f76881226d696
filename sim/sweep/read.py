"""Reading the file that describes a sweep; whatever is wrong with it is said in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gen.configuration import read_toml
from gen.lookup import lookup
from rtl.config import preset
from sim.sweep.metrics import METRICS
from sim.sweep.spec import AXES, LIMIT, Spec, SpecError, domain, sentence

__all__ = ["spec_from_dict", "spec_from_file"]


def spec_from_file(path: Path) -> Spec:
    """Return the sweep that a TOML file describes.

    Raises
    ------
    SpecError
        It is refused; the message names the file, what is at fault, and what is allowed.
    ConfigError
        The file cannot be read or is not TOML.
    """
    values = read_toml(path)
    try:
        return spec_from_dict(values, path.parent)
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from None


def spec_from_dict(values: Mapping[str, Any], folder: Path = Path()) -> Spec:
    """Return the sweep that plain values describe; file names in it are relative to `folder`.

    Raises
    ------
    SpecError
        It is refused.
    """
    try:
        spec = Spec.model_validate(_flat(values))
    except ValidationError as error:
        raise SpecError(sentence(error)) from None
    _check(spec)
    measure = spec.measure
    if measure.liberty is not None:
        measure = measure.model_copy(update={"liberty": str(_found(folder, measure.liberty))})
    energy = str(_found(folder, spec.energy)) if spec.energy else None
    spec = spec.model_copy(update={"measure": measure, "energy": energy})
    try:
        _ = spec.table
    except ValueError as error:
        raise SpecError(str(error)) from None
    return spec


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy in which axes are called by one name: ``limits.window``."""

    def axes(table: Any) -> Any:
        if not isinstance(table, Mapping) or not isinstance(table.get("limits"), Mapping):
            return table
        rest = {name: value for name, value in table.items() if name != "limits"}
        return rest | {f"{LIMIT}{name}": value for name, value in table["limits"].items()}

    flat = dict(values)
    for name in ("grid", "base"):
        if name in flat:
            flat[name] = axes(flat[name])
    for name in ("random", "search"):
        if isinstance(flat.get(name), Mapping) and "axes" in flat[name]:
            flat[name] = {**flat[name], "axes": axes(flat[name]["axes"])}
    if isinstance(flat.get("point"), list):
        flat["point"] = [axes(point) for point in flat["point"]]
    return flat


def _check(spec: Spec) -> None:
    """Refuse what names something that there is not."""
    try:
        preset(spec.preset)
        for axis in spec.base:
            lookup("field or limit", AXES, axis)
        tables = [spec.grid, spec.random.axes if spec.random else {}]
        tables += [spec.search.axes] if spec.search else []
        for table in tables:
            for axis, values in table.items():
                lookup("field or limit", AXES, axis)
                domain(axis, values)
        for point in spec.point:
            for axis in point:
                lookup("field or limit", AXES, axis)
        names = [workload.name for workload in spec.workload]
        for name in names:
            if names.count(name) > 1:
                raise SpecError(f"two workloads are called {name}; each needs a name of its own.")
        if spec.search:
            _check_search(spec, names)
    except SpecError:
        raise
    except ValueError as error:
        raise SpecError(str(error)) from None


def _check_search(spec: Spec, names: list[str]) -> None:
    search = spec.search
    assert search is not None
    if spec.grid or spec.point or spec.random:
        raise SpecError("a search proposes points itself; leave out grid, point and random.")
    if not search.objectives:
        raise SpecError(
            'search has no objective; give maximise or minimise, such as ["NAME.cycles"].'
        )
    if not search.axes:
        raise SpecError("search.axes is empty; it must name at least one field or limit.")
    for objective in search.objectives:
        lookup("workload", dict.fromkeys(names), objective.workload)
        lookup("metric", METRICS, objective.metric)


def _found(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise SpecError(f"{path} does not exist; it must be a file.")
    return path
