"""The pure core: declarations, records, arithmetic and verdicts; no I/O, no clock, no pytest."""
