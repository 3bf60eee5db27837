"""Mixtures of independent columns of categories, booleans or counts."""
