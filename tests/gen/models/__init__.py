"""Tests of the model importers."""
