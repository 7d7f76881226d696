"""Write a report: the page, its pictures, and everything as a CSV table."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sim.report.data import AREAS, Group, Results, short, sort, text, value_of
from sim.sweep.energy import default_table, read_table
from sim.sweep.execute import need
from sim.sweep.metrics import METRICS
from sim.sweep.store import Row, Store, StoreError

PAGE = "index.html"

Sheet = dict[str, Any]
"""A table of the page: ``columns``, and ``rows`` of cells."""


def write(
    store: Path, output: Path, *, title: str | None = None, energy: Path | None = None
) -> list[Path]:
    """Write the report of a store.

    Parameters
    ----------
    store
        What a sweep wrote.
    output
        Directory for the report; made if it is not there.
    title
        Headline; the names of the sweeps if left out.
    energy
        Table of energies to estimate with, instead of the one of the sweep.

    Returns
    -------
    list of Path
        The files: the page first.

    Raises
    ------
    StoreError
        The store is none, or is empty.
    MissingPackage
        A package for plots is not installed.
    """
    for module in ("plotly", "matplotlib", "jinja2"):
        need(module, "a report")
    with Store(store, existing=True) as opened:
        rows = opened.rows()
    if not rows:
        raise StoreError(f"{store} is empty; a sweep must have measured something.")
    if energy is not None:
        table = read_table(energy)
        rows = [row.priced(table) for row in rows]
    results = sort(rows)
    title = title or "Sweep " + ", ".join(dict.fromkeys(row.sweep for row in rows))
    output.mkdir(parents=True, exist_ok=True)
    page = output / PAGE
    page.write_text(render(results, title), encoding="utf-8")
    from sim.report.pictures import pictures

    files = [page, _write_csv(results, output / "points.csv")]
    for group, stem in zip(results.groups, _stems(results), strict=True):
        files += pictures(group, output, stem)
    return files


def render(results: Results, title: str) -> str:
    """Return the page."""
    import jinja2
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    from sim.report.interactive import plots

    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(Path(__file__).with_name("page.html").read_text("utf-8"))
    sections = []
    for group, stem in zip(results.groups, _stems(results), strict=True):
        drawn = [
            (caption, caption.startswith("Every line"), _html(figure, f"{stem}-{number}"))
            for number, (caption, figure) in enumerate(plots(group))
        ]
        sections.append(
            {
                "id": stem,
                "name": group.name,
                "about": f"{group.about}. All results were compared with the golden model.",
                "count": len(group.rows),
                "best": _best(group),
                "plots": drawn,
                "all": _all(group),
            }
        )
    return template.render(
        title=title,
        lead=_lead(results),
        plotly=Markup(get_plotlyjs()),
        sections=sections,
        failed=_failed(results),
        terms=_terms(results),
        tools=_tools(results),
        energy=_energy(results),
    )


def _html(figure: Any, name: str) -> str:
    options = {"displayModeBar": False, "responsive": True}
    found: str = figure.to_html(
        full_html=False, include_plotlyjs=False, div_id=name, config=options
    )
    return found


def _stems(results: Results) -> list[str]:
    """Return a name for each group that can be part of a file's, each once."""
    stems: list[str] = []
    for group in results.groups:
        stem = re.sub(r"[^A-Za-z0-9]+", "-", group.name).strip("-").lower() or "group"
        stems.append(stem if stem not in stems else f"{stem}-{len(stems)}")
    return stems


def _lead(results: Results) -> str:
    measured = [row for row in results.rows if row.ok]
    configurations = len({row.key[0] for row in measured})
    sized = any(name in row.metrics for row in measured for name in AREAS)
    what = "generated, synthesised and run" if sized else "generated and run"
    sentences = [
        f"{_count(len(measured), 'point')} of {_count(configurations, 'configuration')} were "
        f"{what} as RTL under Verilator, each with its results checked."
    ]
    if results.failed:
        sentences.append(f"{len(results.failed)} failed and are listed at the end.")
    sentences.append("Cycles are of the simulated hardware, not of a model of it.")
    if sized:
        sentences.append("Area is what Yosys counts, without memories.")
    sentences.append("Energy is an estimate.")
    return " ".join(sentences)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _cell(value: Any, kind: str | None = None) -> dict[str, str]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return {"text": text(value), "kind": kind or ("number" if number else "")}


def _sheet(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Sheet:
    cells = [[c if isinstance(c, dict) else _cell(c) for c in row] for row in rows]
    return {"columns": list(columns), "rows": cells}


def _best(group: Group) -> Sheet:
    """Return for each metric the point that is best in it, where points differ."""
    rows = []
    for name in group.metrics:
        metric = METRICS[name]
        known = [row for row in group.rows if name in row.metrics]
        if not metric.best or len({row.metrics[name] for row in known}) < 2:
            continue
        choose = min if metric.best == "low" else max
        best = choose(known, key=lambda row: row.metrics[name])
        rows.append([group.label(name), best.metrics[name], group.title(best)])
    return _sheet(["best in", "value", "at"], rows)


def _all(group: Group) -> Sheet:
    names = [name for name in group.metrics if METRICS[name].best or name == "seconds"]
    order = "roofline" if group.has("roofline") else "cycles"
    sign = -1 if METRICS[order].best == "high" else 1
    rows = [
        [
            *(_cell(value_of(row, axis)) for axis in group.axes),
            *(_cell(row.metrics[name]) if name in row.metrics else _cell("–") for name in names),
            row.key[0],
        ]
        for row in sorted(group.rows, key=lambda row: sign * row.metrics[order])
    ]
    titles = [short(axis) for axis in group.axes] + [group.label(name) for name in names]
    return _sheet([*titles, "configuration"], rows)


def _failed(results: Results) -> Sheet:
    rows = [
        [row.label, ", ".join(f"{short(a)} {text(v)}" for a, v in row.varied.items()),
         _cell(row.reason, "reason")]
        for row in results.failed
    ]  # fmt: skip
    return _sheet(["workload", "point", "reason"], rows)


def _terms(results: Results) -> Sheet:
    used = {name for row in results.rows for name in row.metrics}
    rows = [
        [short(name), metric.unit, _cell(metric.what, "reason")]
        for name, metric in METRICS.items()
        if name in used
    ]
    return _sheet(["term", "unit", "meaning"], rows)


def _tools(results: Results) -> Sheet:
    versions: dict[str, dict[str, None]] = {}
    for row in results.rows:
        for name, version in row.tools.items():
            versions.setdefault(name, {})[version] = None
    return _sheet(["tool", "version"], [[n, ", ".join(v)] for n, v in versions.items()])


def _energy(results: Results) -> str:
    tables = {row.energy_table for row in results.rows if row.energy_table}
    if not tables:
        return ""
    default = default_table()
    known = f"the default table, {default.name}" if tables == {default.hash} else "a table"
    return (
        f"Energy: events that the RTL counted, times {known} ({', '.join(sorted(tables))}). Clock "
        "tree, leakage and control are not in it, so compare points with it, and nothing else."
    )


def _write_csv(results: Results, path: Path) -> Path:
    axes = list(dict.fromkeys(axis for row in results.rows for axis in row.varied))

    def line(row: Row) -> dict[str, Any]:
        config, workload, tools = row.key
        return {
            "config_hash": config,
            "workload_hash": workload,
            "tools_hash": tools,
            "sweep": row.sweep,
            "workload": row.label,
            "status": row.status,
            "reason": row.reason,
            **{axis: text(value_of(row, axis)) for axis in axes},
            **{name: row.metrics.get(name, "") for name in METRICS},
        }

    lines = [line(row) for row in results.rows]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)
    return path
