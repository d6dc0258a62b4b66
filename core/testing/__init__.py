"""In-memory versions of the ports of a node: disk, network, clock.

They are part of the package on purpose: the simulators here use them, and tests of programs that use Rookery may. No
other part of the package imports them.
"""
