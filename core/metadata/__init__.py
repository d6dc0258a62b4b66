"""Cluster metadata as values: records in, an immutable image out. Pure: no clock, no IO, no randomness."""
