"""Rookery: a replicated event log in Python that Kafka clients connect to."""

__version__ = "0.1.0"
