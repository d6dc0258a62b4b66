"""Pipelines that a file describes: `spec` says what is in the file, `runner` runs it on Spark."""
