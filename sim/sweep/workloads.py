"""What a point runs: a bench of a block, a layer, or a whole model; and with which limits.

Every workload ends in a functional check, see `sim.sweep.blocks` and `sim.sweep.tokens`.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sim import cache


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Limits(_Strict):
    """Limits set at run time, so that one build serves many points; `None` is as configured.

    Attributes
    ----------
    window
        Macro-ops considered for issue, at most ``issue_window``.
    prefetch
        Whether operands are asked for ahead of their instructions.
    pairing
        Whether spare lanes take a second block row.
    timing
        Timing set of the HBM.
    ecc
        Whether ECC is on, where there is any.
    stream_rows
        Block rows in each of the two halves of the stream buffer, at least 2.
    """

    window: int | None = Field(default=None, ge=1)
    prefetch: bool | None = None
    pairing: bool | None = None
    timing: Literal["hbm3-6400", "hbm4-8000"] | None = None
    ecc: bool | None = None
    stream_rows: int | None = Field(default=None, ge=2)

    def given(self) -> dict[str, Any]:
        """Return those that are set, as `sim.tile` takes them."""
        return self.model_dump(exclude_none=True)


class _Workload(_Strict):
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$")
    limits: Limits = Limits()

    @property
    def allowed_limits(self) -> frozenset[str]:
        """Limits that it has a use for."""
        return frozenset()

    @property
    def content(self) -> dict[str, Any]:
        """Everything that changes a result: not what it is called."""
        return self.model_dump(mode="json", exclude={"name"}, exclude_none=True, warnings=False)


class Mac(_Workload):
    """A matrix product on the matrix engine; operands arrive at a beat per cycle."""

    kind: Literal["mac"]
    outputs: int = Field(512, ge=1)
    inputs: int = Field(512, ge=1)
    rows: int = Field(1, ge=0, description="rows of activations; 0 is as many as fit at a time")
    activation: Literal["mxfp4", "mxint8"] = "mxfp4"
    weight: Literal["mxfp4", "mxint8"] = "mxfp4"
    seed: int = 0

    @property
    def allowed_limits(self) -> frozenset[str]:
        """Limits that it has a use for."""
        return frozenset({"prefetch", "pairing"})


class Vec(_Workload):
    """A task of the vector engine, such as ``softmax``, ``norm``, ``gate`` or ``topk4``."""

    kind: Literal["vec"]
    task: str = "softmax"


class Hbm(_Workload):
    """An access pattern at the client ports of the HBM slice."""

    kind: Literal["hbm"]
    pattern: Literal["sequential", "host", "random64", "mix64", "mix4k"] = "sequential"


class Ring(_Workload):
    """An all-gather on the collective ring."""

    kind: Literal["ring"]
    tiles: int = Field(4, ge=2, le=16)
    gathered: Literal[4096, 65536] = 4096


class _Tokens(_Workload):
    phase: Literal["decode", "prefill"] = "decode"
    context: int = Field(64, ge=2, description="tokens that are seen; in prefill, of the prompt")
    engine: Literal["tile", "mac"] = "tile"

    @property
    def allowed_limits(self) -> frozenset[str]:
        """Limits that it has a use for."""
        return frozenset(Limits.model_fields if self.engine == "tile" else {"pairing"})


class Layer(_Tokens):
    """Layers of gpt-oss's shape, with random weights: experts, biases, sinks and a head."""

    kind: Literal["layer"]
    width: int = Field(256, ge=32)
    layers: int = Field(1, ge=1)


class Model(_Tokens):
    """A model: whatever `jalapeno run` takes, or a shape of `sim.estimate.workloads`."""

    kind: Literal["model"]
    model: str = "glassllm"
    formats: dict[str, str] = {}

    @property
    def content(self) -> dict[str, Any]:
        """Everything that changes a result: of a model in files, their bytes too."""
        path = Path(self.model)
        if not path.exists():
            return super().content
        digest = hashlib.sha256()
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                digest.update(file.read_bytes())
        return super().content | {"bytes": digest.hexdigest()[:24]}


Workload = Annotated[
    Mac | Vec | Hbm | Ring | Layer | Model,
    Field(discriminator="kind"),
]


def block_of(workload: Workload) -> str:
    """Return the block that a workload runs on, as `jalapeno generate` calls it."""
    return workload.engine if isinstance(workload, _Tokens) else workload.kind


def workload_hash(workload: Workload, measured: dict[str, Any]) -> str:
    """Return the hash of what is run, limits included, and of what else is measured."""
    return cache.content_key(json.loads(json.dumps([workload.content, measured])))[:12]
