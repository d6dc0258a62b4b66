"""Configuration: options are declared once, with type, default, bounds and one sentence."""
