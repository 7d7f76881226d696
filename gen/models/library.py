"""Models by name or path, whatever they come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from gen.lookup import UnknownName
from gen.models import glassllm, huggingface, image, llama2c
from gen.models.errors import ModelError
from gen.models.formats import ModelFormats
from gen.models.llama2c_tokenizer import Llama2cTokenizer
from gen.models.model import Model
from gen.models.quantised import quantise_model
from gen.models.tokenizer import Tokenizer


def _glassllm(language: str) -> Callable[[str], tuple[Model, Tokenizer]]:
    def load(name: str) -> tuple[Model, Tokenizer]:
        loaded = glassllm.load(language)
        return loaded.to_model(name), glassllm.GlassTokenizer(loaded.tokenizer)

    return load


INSTALLED: Mapping[str, Callable[[str], tuple[Model, Tokenizer]]] = MappingProxyType(
    {"glassllm": _glassllm("en"), "glassllm:pt": _glassllm("pt")}
)
"""Models that come with the Python packages this project needs."""


class Opened(NamedTuple):
    """A model that is ready to run.

    Attributes
    ----------
    model : Model
        Quantised.
    tokenizer : Tokenizer, optional
        Of the model, where one was found.
    formats : ModelFormats
        What it was quantised with.
    """

    model: Model
    tokenizer: Tokenizer | None
    formats: ModelFormats


def open_model(
    name: str, formats: Mapping[str, str] | None = None, tokenizer: Path | None = None
) -> Opened:
    """Return a quantised model and its tokenizer.

    Parameters
    ----------
    name
        A name in `INSTALLED`; or the path of a llama2.c checkpoint (``.bin``), a directory of a
        Hugging Face model, or a model image (``.safetensors``).
    formats
        Formats that differ from the defaults, or from those of the image; see
        `ModelFormats.replace`.
    tokenizer
        Its file, where it is not beside the model.

    Raises
    ------
    UnknownName
        There is no such model, or no such field of formats.
    ModelError
        The model, or its tokenizer, is refused.
    """
    path = Path(name)
    if name not in INSTALLED and path.suffix == image.SUFFIX and path.is_file():
        model, found, made_with = image.load(path)
        _refuse_tokenizer(tokenizer, "a model image has its own")
    else:
        model, found = import_model(name, tokenizer)
        made_with = ModelFormats()
    wanted = made_with.replace(formats or {})
    return Opened(quantise_model(model, wanted), found, wanted)


def import_model(name: str, tokenizer: Path | None = None) -> tuple[Model, Tokenizer | None]:
    """Return a model with its numbers as they were published, and its tokenizer.

    Parameters
    ----------
    name, tokenizer
        As for `open_model`; not an image.

    Raises
    ------
    UnknownName
        There is no such model.
    ModelError
        The model, or its tokenizer, is refused.
    """
    if name in INSTALLED:
        _refuse_tokenizer(tokenizer, f"{name} has its own")
        return INSTALLED[name](name)
    path = Path(name)
    if path.is_dir():
        loaded: tuple[Model, Tokenizer | None] = huggingface.load(path, tokenizer)
    elif path.is_file() and path.suffix == ".bin":
        model = llama2c.load(path)
        loaded = model, _llama2c_tokenizer(path, model.vocabulary, tokenizer)
    elif path.is_file():
        raise ModelError(
            f"{path} is not a model; give a llama2.c checkpoint (.bin), a directory of a Hugging "
            f"Face model or a model image ({image.SUFFIX})."
        )
    else:
        raise UnknownName(
            f"There is no model {name}; choose from {', '.join(INSTALLED)}, or give the path of a "
            f"llama2.c checkpoint (.bin), a Hugging Face directory or an image ({image.SUFFIX})."
        )
    _check_vocabulary(*loaded)
    return loaded


def _llama2c_tokenizer(
    checkpoint: Path, vocabulary: int, chosen: Path | None
) -> Llama2cTokenizer | None:
    """Return the chosen tokenizer, or the one beside the checkpoint that fits it."""
    if chosen is not None:
        return Llama2cTokenizer.load(chosen, vocabulary)
    fitting = {}
    for file in sorted(checkpoint.parent.glob("tok*.bin")):
        try:
            fitting[file] = Llama2cTokenizer.load(file, vocabulary)
        except ModelError:
            continue  # of another model in the same directory
    if len(fitting) > 1:
        names = " and ".join(file.name for file in fitting)
        raise ModelError(f"{names} both fit {checkpoint}; choose one with --tokenizer.")
    return next(iter(fitting.values()), None)


def _check_vocabulary(model: Model, tokenizer: Tokenizer | None) -> None:
    if tokenizer is not None and tokenizer.vocabulary > model.vocabulary:
        raise ModelError(
            f"The tokenizer has {tokenizer.vocabulary} tokens; this model knows "
            f"{model.vocabulary}, and it must not have more."
        )


def _refuse_tokenizer(tokenizer: Path | None, reason: str) -> None:
    if tokenizer is not None:
        raise ModelError(f"--tokenizer is {tokenizer}; {reason}, so it must be left out.")
