"""Tests of the vector unit that look inside it."""
