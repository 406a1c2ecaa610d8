"""The digest of a container image, as its user hands it in: by the ini file, the environment or the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.integration.conftest import GateFolder

GATE = """\
    @gate(pair(arm("off"), arm("more", seed=1)), SPEED)
    def test_gate(): pass
    """


@pytest.mark.parametrize(
    ("arguments", "variables", "digest"),
    [
        ((), {}, "sha256:ini"),
        ((), {"SPECGATE_IMAGE_DIGEST": "sha256:env"}, "sha256:env"),
        (("--specgate-image-digest=sha256:typed",), {"SPECGATE_IMAGE_DIGEST": "sha256:env"}, "sha256:typed"),
    ],
    ids=["ini", "environment", "command-line"],
)
def test_the_digest_is_recorded_for_every_arm(
    gate_folder: GateFolder, arguments: tuple[str, ...], variables: dict[str, str], digest: str
) -> None:
    """Nothing inside a container tells it; the command line wins over the environment, that over the ini file."""
    gate_folder.write("pytest.ini", "[pytest]\nspecgate_image_digest = sha256:ini\n")
    gate_folder.write("test_gate.py", GATE)
    run = gate_folder.run(*arguments, variables=variables)

    assert {str(facts["image_digest"]) for facts in run.record.engine.values()} == {digest}, run.output


def test_an_empty_digest_is_a_mistake(gate_folder: GateFolder) -> None:
    """A CI variable that expands to nothing must not pass for an image."""
    gate_folder.write("test_gate.py", GATE)
    run = gate_folder.run(variables={"SPECGATE_IMAGE_DIGEST": ""})

    assert run.exit_code == 4
    assert "SPECGATE_IMAGE_DIGEST is empty: give it a value or leave it out" in run.output
