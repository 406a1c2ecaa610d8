"""Probes: what one arm is measured for by itself, without another one to compare it with."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pydantic import Field, field_validator, model_validator

from pytest_specgate.core.arms import MAXIMUM_ROUNDS, Arm, LonePair
from pytest_specgate.core.declared import declaration
from pytest_specgate.core.levels import level_label, temperature_of, with_temperature
from pytest_specgate.core.profile import RequestProfile

if TYPE_CHECKING:
    from typing import Self


@declaration
class AcceptanceProbe:
    """One speculative arm, booted several times, to see how much of what it drafts is accepted.

    Attributes:
        arm: it must speculate.
        profile: the load, of texts; a temperature that it names itself is one of `temperatures`.
        temperatures: every load level of the profile is measured at each of them.
        boots: of the arm; all of them are run unless one fails or breaks a limit.
    """

    arm: Arm = Field(kw_only=True)
    profile: RequestProfile = Field(kw_only=True)
    temperatures: tuple[float, ...] = Field(default=(0.0, 0.8), min_length=1, kw_only=True)
    boots: int = Field(default=3, ge=1, le=MAXIMUM_ROUNDS, kw_only=True)

    @field_validator("arm")
    @classmethod
    def _speculates(cls, arm: Arm) -> Arm:
        if not arm.speculates:
            raise ValueError(
                f"arm {arm.name} drafts nothing, so nothing of it can be accepted: give it a speculative_config"
            )
        return arm

    @field_validator("temperatures")
    @classmethod
    def _each_once(cls, temperatures: tuple[float, ...]) -> tuple[float, ...]:
        for place, temperature in enumerate(temperatures):
            if temperature < 0:
                raise ValueError(f"a temperature of {temperature:g} is none: write 0 or more")
            if temperature in temperatures[:place]:
                raise ValueError(f"temperature {temperature:g} is there twice: name it once")
        return temperatures

    @model_validator(mode="after")
    def _plain_levels(self) -> Self:
        named = [at for at in self.profile.points if temperature_of(at) is not None]
        if named:
            raise ValueError(
                f"point {level_label(named[0])} of the profile has a temperature of its own: leave it out there, and "
                f"name all of them as temperatures="
            )
        return self

    @model_validator(mode="after")
    def _own_temperature(self) -> Self:
        own = self.profile.temperature
        if own and own not in self.temperatures:
            raise ValueError(
                f"the profile has temperature={own:g}, which is none of temperatures={self.temperatures}: name it "
                f"there, or leave it out of the profile"
            )
        return self

    @model_validator(mode="after")
    def _of_texts(self) -> Self:
        if self.profile.prompts == "random":
            raise ValueError(
                "prompts='random': whether random tokens are accepted tells nothing: name 'prose', 'code' or a file of "
                "your own as PromptFile('prompts.jsonl')"
            )
        return self

    @property
    def load(self) -> RequestProfile:
        """The profile, with every level at every temperature."""
        requests = {
            with_temperature(at, temperature) if temperature != self.temperatures[0] else at: count
            for temperature in self.temperatures
            for at, count in self.profile.requests.items()
        }
        return dataclasses.replace(self.profile, temperature=self.temperatures[0], requests=requests)

    @property
    def pair(self) -> LonePair:
        """The arm in the place of both arms of a pair, as it is measured, judged and stored."""
        return LonePair.of(self.arm, profile=self.load, rounds=self.boots)
