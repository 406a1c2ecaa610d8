"""Records and verdicts as text; the only place that turns seconds into milliseconds."""
