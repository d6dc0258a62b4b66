"""A cluster of real processes on this machine: what `rookery up` and `rookery down` do."""
