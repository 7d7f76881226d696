"""Options of the command line that follow from a class, written once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from gen.models.formats import ModelFormats


def with_formats(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each field of `ModelFormats`.

    Parameters
    ----------
    command
        Has a parameter ``formats``, which receives those that the user gave, by field, as text.
    """
    defaults = ModelFormats().to_dict()
    signature = inspect.signature(command, eval_str=True)
    own = [parameter for parameter in signature.parameters.values() if parameter.name != "formats"]
    options = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                str | None,
                typer.Option(
                    f"--{name.replace('_', '-')}",
                    metavar="FORMAT",
                    help=f"{about[0].upper()}{about[1:]}; {defaults[name]} if left out.",
                    rich_help_panel="Formats: mxfp4 or mxint8, then /floor, /ceil or nothing",
                ),
            ],
        )
        for name, about in ModelFormats.describe().items()
    ]

    @functools.wraps(command)
    def wrapper(**values: Any) -> None:
        given = {name: values.pop(name) for name in defaults}
        command(**values, formats={name: text for name, text in given.items() if text is not None})

    parameters = [*own, *options]
    wrapper.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {item.name: item.annotation for item in parameters}
    return wrapper
