"""How much memory a load client needs for many long answers at once."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks.client.driving import Load
from benchmarks.client.processes import Client, Truth, run_client, truth_server

if TYPE_CHECKING:
    from benchmarks.client.reporting import Report, Settings

CONCURRENCY = 256
TOKENS = 1024
PER_WORKER = 4
_TARGET_MB = 400
_SAMPLE_EVERY_S = 0.1


@dataclasses.dataclass(slots=True)
class Peak:
    """The most memory that a process and its descendants had together, sampled.

    Attributes:
        rss_bytes: resident; pages shared by several processes count in each.
        pss_bytes: resident; shared pages are split among those that share them.
        processes: most processes at once.
        samples: number of samples.
    """

    rss_bytes: int = 0
    pss_bytes: int = 0
    processes: int = 0
    samples: int = 0

    def sample(self, process_id: int) -> None:
        """Look once, then rest a while."""
        try:
            root = psutil.Process(process_id)
            found = [process.memory_full_info() for process in (root, *root.children(recursive=True))]
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return
        self.rss_bytes = max(self.rss_bytes, sum(memory.rss for memory in found))
        self.pss_bytes = max(self.pss_bytes, sum(memory.pss for memory in found))
        self.processes = max(self.processes, len(found))
        self.samples += 1
        time.sleep(_SAMPLE_EVERY_S)


def test_memory(settings: Settings, report: Report) -> None:
    """Every client takes 1,024-token answers at c=256; the table shows its peak memory."""
    with truth_server() as truth:
        rows = [_row(truth, client) for client in settings.clients()]
    notes = [
        f"c={CONCURRENCY}, {PER_WORKER} requests a worker, {TOKENS} token events each; target: below {_TARGET_MB} MB.",
        f"All processes of a client together, sampled every {_SAMPLE_EVERY_S:g} s, imports included.",
    ]
    report.add("client-memory", rows, figures=rows, notes=notes)

    assert rows


def _row(truth: Truth, client: Client) -> dict[str, Any]:
    load = Load(truth.url, concurrency=CONCURRENCY, per_worker=PER_WORKER, tokens=TOKENS)
    peak = Peak()
    finished = run_client(client, load, watch=peak.sample)
    rss_mb = peak.rss_bytes / 1e6
    return {
        "client": client.name,
        "processes": peak.processes,
        "peak RSS MB": rss_mb,
        "peak PSS MB": peak.pss_bytes / 1e6,
        "samples": peak.samples,
        "CPU s": finished.outcome.cpu_s,
        "target": ("reached" if rss_mb < _TARGET_MB else "NOT reached") if client.name == "specgate" else None,
    }
