"""The composition root: a node put together from its configuration, in one or both roles."""
