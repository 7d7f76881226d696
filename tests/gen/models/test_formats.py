"""Formats by class of operand, as text and back."""

from __future__ import annotations

import re

import pytest

from gen.lookup import UnknownName
from gen.models.errors import ModelError
from gen.models.formats import ModelFormats
from gen.models.precision import Precision
from rtl.formats import Format, ScaleRule

FOUR, EIGHT = Format.MXFP4, Format.MXINT8
FLOOR, CEIL = ScaleRule.FLOOR, ScaleRule.CEIL


def test_defaults():
    formats = ModelFormats()
    for name in ("attention", "experts", "head"):
        assert getattr(formats, name) == Precision(FOUR, CEIL)
    for name in set(ModelFormats.describe()) - {"attention", "experts", "head"}:
        assert getattr(formats, name) == Precision(EIGHT, FLOOR)


def test_a_format_alone_has_the_rule_that_suits_its_class():
    formats = ModelFormats.from_dict(dict.fromkeys(ModelFormats.describe(), "mxfp4"))
    ceil = {name for name in ModelFormats.describe() if getattr(formats, name).rule is CEIL}
    assert ceil == {"attention", "experts", "router", "head"}
    assert ModelFormats.from_dict({"attention": "mxint8"}).attention == Precision(EIGHT, FLOOR)


def test_replace_changes_what_it_is_told_and_no_more():
    formats = ModelFormats().replace({"keys": "mxfp4/ceil", "embedding": "fp32"})
    assert formats.keys == Precision(FOUR, CEIL)
    assert formats.embedding is None
    assert formats.replace({"keys": "mxint8", "embedding": "mxint8"}) == ModelFormats()


@pytest.mark.parametrize("values", [{}, {"embedding": "fp32"}, {"values": "mxfp4/floor"}])
def test_text_and_back(values):
    formats = ModelFormats.from_dict(values)
    assert ModelFormats.from_dict(formats.to_dict()) == formats
    assert list(formats.to_dict()) == list(ModelFormats.describe())


@pytest.mark.parametrize("text", ["", "fp8", "mxfp4/", "mxfp4/up", "MXFP4", "/ceil", None, 4, []])
def test_other_values_are_refused(text):
    with pytest.raises(ModelError, match=r"^attention is .*; it must be mxfp4 or mxint8, with /fl"):
        ModelFormats.from_dict({"attention": text})


def test_fp32_is_for_the_embedding_only():
    with pytest.raises(ModelError, match=re.escape('keys is "fp32"; it must be mxfp4 or mxint8')):
        ModelFormats.from_dict({"keys": "fp32"})
    with pytest.raises(ModelError, match=re.escape('embedding is "fp4"; it must be')) as error:
        ModelFormats.from_dict({"embedding": "fp4"})
    assert str(error.value).endswith(", or fp32.")


def test_unknown_fields_are_refused():
    with pytest.raises(UnknownName, match="no format field expert; did you mean experts"):
        ModelFormats.from_dict({"expert": "mxfp4"})
