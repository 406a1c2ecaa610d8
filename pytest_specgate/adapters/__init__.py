"""Adapters: everything that touches processes, sockets, disks and clocks; one port each."""
