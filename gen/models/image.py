"""Model images: a quantised model and its tokenizer in one safetensors file.

The file's metadata has one entry, ``jalapeno``: a JSON object with the version of this layout, a
description of the model (`gen.models.tree`), the formats it was quantised in, and a SHA-256 over
all of that and every tensor. Tensors are

- ``model.….codes`` and ``.scales`` of MX matrices in blocks of 32: MXFP4 two codes per byte, the
  even element in the low nibble, as gpt-oss checkpoints have them; MXINT8 one byte per element;
- float32 vectors and tables under their own names;
- ``tokenizer``: UTF-8 JSON.

The same model always gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from gen.models import tokenizers, tree
from gen.models.errors import ModelError
from gen.models.formats import ModelFormats
from gen.models.model import Model
from gen.models.tokenizer import Tokenizer

VERSION = 1
"""Version of this layout; a change of the model description is one, too."""

SUFFIX = ".safetensors"
"""Of the names of images."""

_KEY = "jalapeno"


class Image(NamedTuple):
    """What is in a model image.

    Attributes
    ----------
    model : Model
        Quantised.
    tokenizer : Tokenizer, optional
        Of the model.
    formats : ModelFormats
        What it was quantised with.
    """

    model: Model
    tokenizer: Tokenizer | None
    formats: ModelFormats


def save(path: Path, model: Model, tokenizer: Tokenizer | None, formats: ModelFormats) -> str:
    """Write an image; the file is there whole or not at all.

    Parameters
    ----------
    path
        Where to; its directory is made if need be.
    model
        Quantised model.
    tokenizer
        Its tokenizer, if it has one.
    formats
        What it was quantised with.

    Returns
    -------
    str
        The hash of the contents, 64 hex digits.

    Raises
    ------
    ModelError
        The file's name does not end like that of an image, or is a directory's.
    """
    if path.suffix != SUFFIX or path.is_dir():
        raise ModelError(f"The image cannot be {path}; it must be a file called NAME{SUFFIX}.")
    description, arrays = tree.flatten(model, "model")
    if tokenizer is not None:
        text = _json(tokenizers.to_state(tokenizer))
        arrays["tokenizer"] = np.frombuffer(text.encode(), np.uint8)
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    facts = {"version": VERSION, "formats": formats.to_dict(), "model": description}
    facts["hash"] = _hash(facts, arrays)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".new-") as directory:
        new = Path(directory) / path.name
        # One entry only: the library writes several in an order that changes from run to run.
        safetensors.numpy.save_file(arrays, new, metadata={_KEY: _json(facts)})
        # The library lets nobody else read the file; it should be like any other.
        ordinary = Path(directory) / "ordinary"
        ordinary.touch()
        shutil.copymode(ordinary, new)
        new.replace(path)
    return facts["hash"]


def load(path: Path) -> Image:
    """Read an image.

    Raises
    ------
    ModelError
        It is no image, one of another version, or damaged.
    """
    facts, arrays = _read(path)
    version = facts.get("version")
    if version != VERSION:
        raise ModelError(
            f"{path} is a model image of version {version}; this program reads version {VERSION}."
        )
    if facts.pop("hash", None) != _hash(facts, arrays):
        raise ModelError(
            f"{path} is damaged: its contents are not those that its hash was made of."
        )
    tokenizer = None
    if "tokenizer" in arrays:
        tokenizer = tokenizers.from_state(json.loads(arrays["tokenizer"].tobytes()))
    model = tree.build(Model, facts["model"], arrays, "model")
    return Image(model, tokenizer, ModelFormats.from_dict(facts["formats"]))


def _read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    try:
        with safetensors.safe_open(path, framework="np") as file:
            metadata = (file.metadata() or {}).get(_KEY)
            if metadata is None:
                raise ModelError(
                    f"{path} is not a model image; give the directory of a Hugging Face model, "
                    "with its config.json, or make an image with jalapeno import."
                )
            facts = json.loads(metadata)
            if not isinstance(facts, dict):
                raise ModelError(f"{path} is damaged: its description is not a JSON object.")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (safetensors.SafetensorError, json.JSONDecodeError) as error:
        raise ModelError(f"{path} is damaged or is not a safetensors file: {error}.") from None
    return facts, arrays


def _hash(facts: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(_json(facts).encode())
    for name, array in sorted(arrays.items()):
        header = _json([name, array.dtype.name, array.shape])
        digest.update(header.encode())
        digest.update(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
    return digest.hexdigest()


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
