"""Who somebody is, and what they may do: pure, without sockets and clocks."""
