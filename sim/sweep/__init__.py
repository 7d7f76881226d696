"""Sweeps: many configurations and workloads measured, into one table that outlives every crash.

>>> spec = spec_from_file(Path("docs/studies/stream.toml"))                 # doctest: +SKIP
>>> with Store("results.sqlite") as store:                                  # doctest: +SKIP
...     rows = sweep(spec, store)
"""

from __future__ import annotations
