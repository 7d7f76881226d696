"""Importers of published models."""
