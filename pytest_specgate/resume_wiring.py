"""The wiring of a session to earlier windows: which of them it goes on with, and how often its own were measured."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pytest_specgate.adapters.attempts import Subject, continued_in, note_attempt, note_continuation
from pytest_specgate.adapters.baseline_files import sha256_of_file
from pytest_specgate.adapters.storage import RECORD_NAME, load_record
from pytest_specgate.baseline_wiring import short
from pytest_specgate.core.arms import arms_of
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.resume import Source, TakenOver, Today, taken_over

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_specgate.baseline_wiring import SettingsOf
    from pytest_specgate.core.ports import Engine, Host
    from pytest_specgate.window import WindowFacts, WindowPlan


@dataclasses.dataclass(frozen=True, slots=True)
class SessionHistory:
    """What a session knows of itself beside earlier windows.

    Attributes:
        results: folder of all windows.
        host: this machine.
        host_class: name of its class.
        settings: returns what the servers of some arms are given, without secrets.
        commit: of the project; empty where it is not known.
    """

    results: Path
    host: Host
    host_class: str
    settings: SettingsOf
    commit: str

    def resumed(self, record: Path, plans: Sequence[WindowPlan], engine: Engine) -> tuple[int, TakenOver]:
        """Return which window of the session goes on with a record, by its place, and what it takes over.

        Args:
            record: file of the record, or its folder.
            plans: the windows of the session.
            engine: whose installs they would be measured with.

        Raises:
            RecordError: the record cannot be read.
            UsageError: no window can go on with it, or one did already.
        """
        path = record / RECORD_NAME if record.is_dir() else record
        source = Source(short(path), sha256_of_file(path) if path.is_file() else "")
        found = load_record(path)
        # Also where the record lies: this session may keep its results in another folder.
        folders = dict.fromkeys([self.results, path.parent.parent])
        laters = (continued_in(folder, source.sha256) for folder in folders)
        if (later := next(filter(None, laters), None)) is not None:
            raise UsageError(
                f"{source.path} was continued already, and twice would be to draw its last rounds again: go on with "
                f"{short(later)}, or measure anew, without --specgate-resume"
            )
        host, client = self.host.facts(), self.host.client_version()
        windows = [
            Today(
                pairs=plan.pairs,
                gates=plan.gates,
                strict=plan.strict,
                settings=self.settings(arms_of(plan.pairs)),
                host_class=self.host_class,
                host=host,
                engine={arm.name: engine.facts(arm) for arm in arms_of(plan.pairs)},
                commit=self.commit,
                client_version=client,
                sweeps=plan.stored_sweeps,
            )
            for plan in plans
        ]
        return taken_over(windows, found, source)

    def facts(self, plan: WindowPlan, engine: Engine, *, record: Path) -> WindowFacts:
        """Return what is known of a window that starts now, and note beside its record which attempt it is.

        Args:
            plan: the window.
            engine: whose installs it is measured with.
            record: where its record is going to be.
        """
        subject = Subject(
            pairs=plan.pairs,
            gates=plan.gates,
            engine={arm.name: engine.facts(arm) for arm in arms_of(plan.pairs)},
            # What the project makes of the commands is among the facts, arm by arm.
            settings=self.settings(()),
            commit=self.commit,
        )
        settings = self.settings(arms_of(plan.pairs))
        facts = dataclasses.replace(plan.facts, host_class=self.host_class, settings=settings, commit=self.commit)
        taken = plan.taken
        if taken is None:
            return dataclasses.replace(facts, attempt=note_attempt(self.results, record.parent, subject))
        last = taken.continued[-1]
        note_continuation(record.parent, subject, attempt=taken.attempt, continues=last.record_sha256)
        return dataclasses.replace(facts, attempt=taken.attempt, continued=taken.continued)
