"""Tests of the golden model."""
