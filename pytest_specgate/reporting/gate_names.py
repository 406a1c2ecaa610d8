"""Short names of gates, for places where several of them judge the same figures."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pytest_specgate.reporting.baselines import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_specgate.core.verdict import Verdict


def gate_names(verdicts: Iterable[Verdict]) -> dict[str, str]:
    """Return the shortest names that tell the gates of some verdicts apart, by id; none where there is only one."""
    return short_names(verdict.gate for verdict in verdicts)


def names_for_thresholds(thresholds: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return names of gates, by id, for places that name thresholds; none where their ids tell them apart.

    Args:
        thresholds: id of the gate and of the threshold.
    """
    found = list(dict.fromkeys(thresholds))
    return short_names(gate for gate, _ in found) if len({own for _, own in found}) < len(found) else {}


def short_names(gates: Iterable[str]) -> dict[str, str]:
    """Return the shortest names that tell gates apart, by id; none where there is one gate only.

    A gate is called by its function, where two functions share a name by its class, or else by its whole id.
    """
    ids = tuple(dict.fromkeys(gates))
    if len(ids) < 2:
        return {}
    for name_of in (_function, _within_file):
        names = {gate: one_line(name_of(gate)) for gate in ids}
        if max(Counter(names.values()).values()) == 1:
            return names
    return {gate: one_line(gate) for gate in ids}


def _function(gate: str) -> str:
    """Return the name of the function with its parameters, which may hold anything."""
    path, bracket, parameters = gate.partition("[")
    return f"{path.rpartition('::')[2]}{bracket}{parameters}"


def _within_file(gate: str) -> str:
    return gate.partition("::")[2] or gate


def thresholds_text(verdicts: Iterable[Verdict], names: Mapping[str, str]) -> str:
    """Return the ids of some thresholds, in brackets behind those of their gates that have names: ``test_k4[a, b]``."""
    by_gate: dict[str, list[str]] = {}
    for verdict in verdicts:
        by_gate.setdefault(names.get(verdict.gate, ""), []).append(verdict.threshold)
    listed = {gate: ", ".join(thresholds) for gate, thresholds in by_gate.items()}
    return ", ".join(f"{gate}[{text}]" if gate else text for gate, text in listed.items())


def item_name(node_id: str, threshold: str) -> str:
    """Name the test of a threshold; where a record is reported alone, the id of its gate does not."""
    return node_id if threshold in node_id else f"{node_id} {threshold}"


def with_gate(words: str, verdict: Verdict, names: Mapping[str, str]) -> str:
    """Return what became of a threshold, with its gate where several share the pair."""
    gate = names.get(verdict.gate)
    return f"{words} {gate}" if gate else words


def once(lines: Sequence[str]) -> str:
    """Return lines below one another; one that they all share stands once."""
    return lines[0] if lines and len(set(lines)) == 1 else "\n".join(lines)
