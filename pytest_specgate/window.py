"""The use case: drive all boots of a window through the ports and return its record.

One server at a time; each arm once a round, in an order that reverses every round; every point between two counter
scrapes. Whatever goes wrong with a server becomes part of the record, so that the judge can name it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pytest_specgate.boot import Boot
from pytest_specgate.core.arms import arms_of, boot_order
from pytest_specgate.core.differences import compacted
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.judge import judge, needs_more_rounds
from pytest_specgate.core.records import (
    BootRecord,
    PairRecord,
    StartUpRecord,
    WindowRecord,
    redacted_arm,
    redacted_profile,
)
from pytest_specgate.prompting import Prompter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.differences import StartUp
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.ports import Ports
    from pytest_specgate.core.profile import RequestProfile


@dataclasses.dataclass(frozen=True, slots=True)
class WindowPlan:
    """What a window has to measure.

    Attributes:
        pairs: all with one profile; a pair without a gate is measured for all of its rounds.
        gates: gates on these pairs; a pair whose gates are all decided boots no more.
        strict: whether engine-induced differences that a pair does not allow make it INVALID.
    """

    pairs: tuple[ArmPair, ...]
    gates: tuple[Gate, ...]
    strict: bool = False

    def __post_init__(self) -> None:
        if len({pair.profile.fingerprint() for pair in self.pairs}) != 1:
            raise UsageError("the pairs of one window must share one request profile")
        arms_of(self.pairs)

    @property
    def profile(self) -> RequestProfile:
        """The load of every pair."""
        return self.pairs[0].profile

    @property
    def rounds(self) -> int:
        """Rounds at most."""
        return max(pair.rounds for pair in self.pairs)

    def open_pairs(self, record: WindowRecord, *, rounds_done: int) -> tuple[ArmPair, ...]:
        """Return the pairs that need another round."""
        return tuple(pair for pair in self.pairs if rounds_done < pair.rounds and self._open(pair, record))

    def broken(self, pair: ArmPair, record: WindowRecord) -> bool:
        """Whether a boot of a pair failed: it is invalid then, and more boots would only cost time."""
        return any(boot.failure for boots in record.boots_for(pair) for boot in boots)

    def _open(self, pair: ArmPair, record: WindowRecord) -> bool:
        if not record.boots:
            return True
        if self.broken(pair, record):
            return False
        own = [gate for gate in self.gates if gate.pair.key == pair.key]
        return not own or any(needs_more_rounds(judge(gate, record, final=False)) for gate in own)


def measure(plan: WindowPlan, ports: Ports) -> WindowRecord:
    """Measure a window; its record is stored after every boot, so also when this is interrupted.

    Raises:
        UsageError: something in the declaration cannot be carried out (no prompt of this length, say).
    """
    return _Window(plan, ports).run()


class _Window:
    """A window while it runs."""

    def __init__(self, plan: WindowPlan, ports: Ports) -> None:
        self._plan = plan
        self._ports = ports
        self._prompter = Prompter(ports, plan.profile)
        self._left_running = False
        self._first_start: StartUp | None = None
        arms = arms_of(plan.pairs)
        self._record = WindowRecord(
            created_at=ports.host.now(),
            finished=False,
            strict=plan.strict,
            arms=tuple(map(redacted_arm, arms)),
            pairs=tuple(map(PairRecord.of, plan.pairs)),
            profile=redacted_profile(plan.profile),
            host=ports.host.facts(),
            engine={arm.name: ports.engine.facts(arm) for arm in arms},
        )

    def run(self) -> WindowRecord:
        self._keep()
        for number in range(1, self._plan.rounds + 1):
            pairs = self._plan.open_pairs(self._record, rounds_done=number - 1)
            for position, arm in enumerate(boot_order(arms_of(pairs), number)):
                self._boot_for(pairs, arm, number=number, position=position)
        verdicts = [verdict for gate in self._plan.gates for verdict in judge(gate, self._record)]
        self._keep(finished=True, verdicts=tuple(verdict.model_dump(mode="json") for verdict in verdicts))
        return self._record

    def _boot_for(self, pairs: Sequence[ArmPair], arm: Arm, *, number: int, position: int) -> None:
        """Boot an arm for those pairs of a round that can still become valid.

        Nothing more is booted beside a server that could not be ended: two would share the machine.
        """
        own = [pair for pair in pairs if arm in pair.arms and not self._plan.broken(pair, self._record)]
        if self._left_running or not own:
            return
        self._say(f"round {number} of {self._plan.rounds}: {arm.name}: starting its server")
        titles = tuple(pair.title for pair in pairs if arm in pair.arms)
        boot = self._boot(arm, number=number, position=position, pairs=titles)
        self._keep(boots=(*self._record.boots, boot))

    def _keep(self, **changes: object) -> None:
        self._record = self._record.model_copy(update=changes)
        self._ports.store.save(self._record)

    def _say(self, line: str) -> None:
        self._ports.progress.say(line)

    def _boot(self, arm: Arm, *, number: int, position: int, pairs: tuple[str, ...]) -> BootRecord:
        boot = Boot(self._ports, arm, prompter=self._prompter)
        started_at = self._ports.host.now()
        host_before = self._ports.host.facts()
        failure = boot.run()
        self._left_running = boot.left_running
        if failure is not None:
            self._say(failure.message)
        return BootRecord(
            arm=arm.name,
            round=number,
            position=position,
            pairs=pairs,
            command=boot.command,
            started_at=started_at,
            boot_s=boot.boot_s,
            profile=boot.profile,
            resolved=boot.resolved,
            startup=self._kept(boot.startup),
            host_before=host_before,
            host_after=self._ports.host.facts(),
            points=tuple(boot.points),
            failure=failure,
            unproved=boot.unproved,
        )

    def _kept(self, start: StartUp | None) -> StartUpRecord | None:
        """Return what is stored of a start: of all but the first, what differs from the first."""
        if start is None:
            return None
        self._first_start = self._first_start or start
        kept = start if self._first_start is start else compacted(start, first=self._first_start)
        return StartUpRecord(config=dict(kept.config), lines=dict(kept.lines))
