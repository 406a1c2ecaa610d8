"""The wiring of a session to the baseline files of the project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pytest_specgate.adapters.baseline_files import BaselineFolder, sha256_of_file
from pytest_specgate.core.baseline_closed import unclaimed
from pytest_specgate.core.baseline_fit import known_baseline
from pytest_specgate.core.baselines import BASELINES_OFF, FOREIGN_HOST, KnownBaseline
from pytest_specgate.core.redaction import redacted_text
from pytest_specgate.core.stored import Failure
from pytest_specgate.session_window import Unclaimed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.baseline_update import Update
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.measured import MeasuredWindow
    from pytest_specgate.core.thresholds import BaselineThreshold
    from pytest_specgate.options import GateOptions

    SettingsOf: TypeAlias = Callable[[Sequence[Arm]], Mapping[str, JsonValue]]

_OFF = "baselines are left alone (--specgate-baseline=off)"


class SessionBaselines:
    """The baselines that a session judges against, or writes.

    Args:
        options: of the session.
        host_class: of this machine.
        settings: returns what the servers of some arms are given.
    """

    def __init__(self, options: GateOptions, *, host_class: str, settings: SettingsOf) -> None:
        self._options = options
        self._folder = BaselineFolder(options.baselines)
        self._host_class = host_class
        self._settings = settings

    def known(self, gates: Iterable[Gate]) -> tuple[KnownBaseline, ...]:
        """Return what is known of the baselines that some gates are judged against.

        Raises:
            RecordError: one cannot be read.
        """
        return tuple(known for gate in gates for known in self._known(gate))

    def _known(self, gate: Gate) -> Iterator[KnownBaseline]:
        claims = {threshold.entry_id: threshold for threshold in gate.baselines}
        if not claims:
            return
        if self._options.baseline == "off":
            problem = Failure(reason=BASELINES_OFF, message=_OFF)
            yield from (KnownBaseline(gate=gate.id, entry_id=name, problem=problem) for name in claims)
            return
        attached = self._options.attached_of(gate.pair)
        if attached:
            text = f"the server of {attached[0]} is attached: its machine is not this one, whose baselines these are"
            problem = Failure(reason=FOREIGN_HOST, message=text)
            yield from (KnownBaseline(gate=gate.id, entry_id=name, problem=problem) for name in claims)
            return
        file = self._folder.load(gate.id, host_class=self._host_class)
        for claim in claims.values():
            yield known_baseline(
                gate,
                claim,
                file,
                path=short(self._folder.path(gate.id, host_class=self._host_class)),
                host_class=self._host_class,
                elsewhere=self._folder.elsewhere(gate.id, host_class=self._host_class),
                settings=self._settings(gate.pair.arms),
            )

    def update(
        self, gate: Gate, thresholds: Sequence[BaselineThreshold], measured: MeasuredWindow, *, now: str
    ) -> Update:
        """Return what a measured window would change in the baseline of a gate; nothing is written."""
        # It brings numpy and scipy, which cost a fifth of a second that only an update may.
        from pytest_specgate.core.baseline_update import Acceptance, plan_update  # noqa: PLC0415

        mode = self._options.baseline
        how = Acceptance(
            mode="new" if mode == "new" else "append",
            reason=redacted_text(self._options.baseline_reason or f"pytest --specgate-baseline={mode}"),
            accepted_at=now,
            record_sha256=sha256_of_file(Path(measured.path)),
        )
        file = self._folder.load(gate.id, host_class=self._host_class)
        return plan_update(gate, measured.record, file, how=how, thresholds=thresholds)

    def save(self, update: Update) -> str:
        """Write an update, and return the path of its file."""
        return short(self._folder.save(update.after, before=update.before))

    def unclaimed(self, gates: Iterable[Gate], *, gone: Callable[[str], bool]) -> Iterator[Unclaimed]:
        """Yield what no gate claims, of the gates whose files were collected whole, or are no more.

        Raises:
            RecordError: a baseline cannot be read.
        """
        known = {gate.id: gate for gate in gates}
        found = list(self._folder.files())
        if known and not any(file.gate in known for _, file in found):
            # Under another root folder gates have other names, and every baseline would look like nobody's.
            return
        for path, file in found:
            entries = unclaimed(file, known.get(file.gate)) if gone(file.gate) else frozenset()
            if entries:
                yield Unclaimed(short(path), file, entries)

    def prune(self, found: Unclaimed) -> None:
        """Remove what no gate claims; a file of which nothing is left goes, too."""
        self._folder.save(found.file.without(found.entries), before=found.file, at=Path(found.path))


def short(path: Path) -> str:
    """Return a path as a user in this folder would type it."""
    here = path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
