"""Tests of the matrix engine that look inside it."""
