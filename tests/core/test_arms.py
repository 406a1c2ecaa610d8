"""Arms, in what two of them differ, and the order in which they boot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.arms import Arm, ArmPair, arms_of, boot_order, differing_paths
from pytest_specgate.core.errors import UsageError

if TYPE_CHECKING:
    from tests.core.conftest import Build

OFF = Arm("off", model="folder", args={"max_model_len": 64, "dtype": "bfloat16"}, env={"VLLM_X": "1"})
NESTED = OFF.vary("nested", args={"x": {"a": 1, "b": {"c": [1], "d": True}}})
CHANGES: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({}, ()),
    ({"model": "other"}, ("model",)),
    ({"python": "venv/bin/python"}, ("engine",)),
    ({"args": {"dtype": None}}, ("args.dtype",)),
    ({"args": {"seed": 1}}, ("args.seed",)),
    ({"args": {"seed": None}}, ()),
    ({"args": {"dtype": "float16", "seed": 1}}, ("args.dtype", "args.seed")),
    ({"args": {"max_model_len": 64.0}}, ()),
    ({"args": {"max_model_len": "64"}}, ("args.max_model_len",)),
    (
        {"args": {"speculative_config": {"method": "ngram", "num_speculative_tokens": 4}}},
        ("args.speculative_config.method", "args.speculative_config.num_speculative_tokens"),
    ),
    ({"args": {"x": {}}}, ("args.x",)),
    ({"env": {"VLLM_X": "2", "VLLM_Y": "1"}}, ("env.VLLM_X", "env.VLLM_Y")),
]


@pytest.mark.parametrize(("changes", "paths"), CHANGES)
def test_differing_paths(changes: dict[str, Any], paths: tuple[str, ...]) -> None:
    """Two arms differ in exactly the dotted paths that were varied, either way round."""
    other = OFF.vary("other", **changes)

    assert differing_paths(OFF, other) == differing_paths(other, OFF) == paths


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        ({"b": {"d": True, "c": [1]}, "a": 1.0}, ()),
        ({"a": 2, "b": {"c": [1], "d": True}}, ("args.x.a",)),
        ({"a": 1, "b": {"c": [2], "d": True}}, ("args.x.b.c",)),
        ({"a": 1, "b": {"c": [1], "d": 1}}, ("args.x.b.d",)),
        ({"a": True, "b": {"c": [True], "d": True}}, ("args.x.a", "args.x.b.c")),
        ({"a": 1, "b": {"c": [1]}}, ("args.x.b.d",)),
        ({"a": 1, "b": {"c": [1], "d": True}, "e": None}, ("args.x.e",)),
        ("plain", ("args.x", "args.x.a", "args.x.b.c", "args.x.b.d")),
    ],
)
def test_differing_paths_reach_into_mappings(value: Any, paths: tuple[str, ...]) -> None:
    """Mappings are compared leaf by leaf, whatever the order of their keys, and a bool is never a number."""
    other = NESTED.vary("other", args={"x": value})

    assert differing_paths(NESTED, other) == differing_paths(other, NESTED) == paths


def test_true_and_one_are_different_arguments() -> None:
    """`--x` and `--x 1` are two command lines, although Python says that True equals 1."""
    flag = OFF.vary("flag", args={"x": True})

    assert differing_paths(flag, OFF.vary("number", args={"x": 1})) == ("args.x",)


def test_a_misspelt_keyword_of_vary_names_the_nearest() -> None:
    """A keyword that `vary` does not have is a usage error that names the one that was meant."""
    with pytest.raises(UsageError, match=r"^vary\(\) has no keyword 'argz'; did you mean 'args'\?$"):
        OFF.vary("new", argz={"x": 1})  # type: ignore[call-arg]  # the point of the test


def test_vary_merges_and_leaves_the_original_alone() -> None:
    """Arguments and environment are merged key by key, a mapping is replaced whole, `None` removes."""
    base = OFF.vary("base", args={"speculative_config": {"method": "ngram", "num_speculative_tokens": 4}})

    k7 = base.vary("k7", args={"speculative_config": {"num_speculative_tokens": 7}, "dtype": None}, env={"A": "b"})

    assert k7.args == {"max_model_len": 64, "speculative_config": {"num_speculative_tokens": 7}}
    assert k7.env == {"VLLM_X": "1", "A": "b"}
    assert OFF.args == {"max_model_len": 64, "dtype": "bfloat16"}


@pytest.mark.parametrize(
    ("args", "k", "speculates"),
    [
        ({}, None, False),
        ({"speculative_config": None}, None, False),
        ({"speculative_config": {"method": "ngram", "num_speculative_tokens": 4}}, 4, True),
        ({"speculative_config": {"method": "mtp"}}, None, True),
        ({"speculative_config": {}}, None, True),
    ],
)
def test_draft_horizon(args: dict[str, Any], k: int | None, *, speculates: bool) -> None:
    """An arm speculates when it declares a configuration for it; its horizon is known when that says so."""
    arm = Arm("x", model="folder", args=args)

    assert (arm.draft_horizon, arm.speculates) == (k, speculates)


@pytest.mark.parametrize(
    ("argument", "named"),
    [("port", "port"), ("host", "host"), ("model", "model"), ("served-model-name", "served_model_name")],
)
def test_arguments_that_the_gate_sets_are_refused(argument: str, named: str) -> None:
    """An argument that the gate sets itself is refused, however it is spelt."""
    with pytest.raises(UsageError, match=f"^Arm: {named} is set by the gate itself$"):
        Arm("x", model="folder", args={argument: 1})


def test_names_with_dashes_are_the_same_arguments() -> None:
    """However an argument is spelt, the arm has it by its Python name, and speculation is seen as such."""
    speculation = {"method": "ngram", "num-speculative-tokens": 4}
    arm = Arm("x", model="folder", args={"max-model-len": 64, "speculative-config": speculation})
    off = arm.vary("off", args={"speculative-config": None, "max-model-len": 32})

    assert arm.args == {
        "max_model_len": 64,
        "speculative_config": {"method": "ngram", "num_speculative_tokens": 4},
    }
    assert (arm.speculates, arm.draft_horizon, off.args) == (True, 4, {"max_model_len": 32})


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ({"a_b": 1, "a-b": 2}, "a_b is given twice, as 'a_b' and as 'a-b'; give it once"),
        ({"x": True, "no-x": True}, "x is given twice, as 'x' and as 'no-x'; give it once"),
        ({"no_x": True, "no-x": True}, "x is given twice, as 'no_x' and as 'no-x'; give it once"),
        (
            {"speculative_config": {"num_speculative_tokens": 4, "num-speculative-tokens": 7}},
            "num_speculative_tokens is given twice, as 'num_speculative_tokens' and as 'num-speculative-tokens'; give it once",  # noqa: E501  - one sentence
        ),
    ],
)
def test_an_argument_that_is_there_twice_is_refused(args: dict[str, Any], sentence: str) -> None:
    """The engine would take the last of two spellings, and nobody can see which one is meant."""
    with pytest.raises(UsageError) as raised:
        Arm("x", model="folder", args=args)

    assert str(raised.value) == f"Arm: {sentence}"


@pytest.mark.parametrize(
    "name", ["spec_tokens", "spec-method", "spec_model", "speculative", "spec", "speculative-conf"]
)
def test_speculation_by_another_argument_is_refused(name: str) -> None:
    """The engine has short cuts, and takes the beginning of a name; an arm with them would not be seen to speculate."""
    plain = name.replace("-", "_")
    words = f"Arm: {plain}: declare speculation as speculative_config, a dict, so that it can be proved"

    with pytest.raises(UsageError) as raised:
        Arm("x", model="folder", args={name: 4})

    assert str(raised.value) == words
    assert Arm("x", model="folder", args={"specialize_active_lora": True, "seed": 1, "sp": 2}).args["sp"] == 2


@pytest.mark.parametrize("name", ["speculative_config.method", "compilation-config.mode", "--seed", "-tp", "", "a b"])
def test_names_that_are_no_arguments_are_refused(name: str) -> None:
    """Parts of a mapping are declared in a dict, so that they are compared, and no dashes are written in front."""
    with pytest.raises(UsageError, match=r"^Arm: an engine argument is named as in Python, without dashes in front, "):
        Arm("x", model="folder", args={name: 4})


@pytest.mark.parametrize("k", ["4", True, 0, -1, 4.0, [4]])
def test_a_number_of_drafts_that_is_none_is_refused(k: object) -> None:
    """What is no whole number above 0 could not be compared with what the server counts."""
    with pytest.raises(UsageError) as raised:
        OFF.vary("x", args={"speculative_config": {"num_speculative_tokens": k}})

    assert str(raised.value) == f"Arm: num_speculative_tokens is a whole number above 0, got {k!r}"


@pytest.mark.parametrize(
    "config", ["preset", "", '{"method": "ngram", "num_speculative_tokens": 4}', ['{"method": "eagle"}'], True, 5]
)
def test_speculation_declared_as_anything_but_a_dict_is_refused(config: object) -> None:
    """What another form declares of speculation could not be compared with the server, so a dict is asked for."""
    words = f"Arm: speculative_config is a dict, so that what it declares can be proved; got {config!r}"

    with pytest.raises(UsageError) as declared:
        Arm("x", model="folder", args={"speculative_config": config})
    with pytest.raises(UsageError) as varied:
        OFF.vary("x", args={"speculative_config": config})

    assert (str(declared.value), str(varied.value)) == (words, words)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "-a", "é", "x" * 41])
def test_names_of_arms_are_short_and_safe(name: str) -> None:
    """A name that could not be part of a file name or a table is refused."""
    with pytest.raises(UsageError, match=r"^Arm\.name: "):
        Arm(name, model="folder")


def test_an_argument_that_is_no_json_is_refused() -> None:
    """An engine argument is a JSON value."""
    with pytest.raises(UsageError, match=r"^Arm\.args\.x: input was not a valid JSON value"):
        Arm("x", model="folder", args={"x": object()})


def _pair(build: type[Build], varies: Any, **changes: Any) -> ArmPair:
    return ArmPair(reference=OFF, candidate=OFF.vary("new", **changes), varies=varies, profile=build.profile())


@pytest.mark.parametrize(
    ("varies", "changes"),
    [
        ("args.seed", {"args": {"seed": 1}}),
        ("args", {"args": {"seed": 1, "dtype": None}}),
        (("args.seed", "env"), {"args": {"seed": 1}, "env": {"A": "b"}}),
        (["args.seed", "env.A"], {"args": {"seed": 1}, "env": {"A": "b"}}),
        ("engine", {"python": "venv/bin/python"}),
        ("args.x", {"args": {"x": {"a": 1, "b": {"c": 2}}}}),
        (("args.x.a", "args.x.b"), {"args": {"x": {"a": 1, "b": {"c": 2}}}}),
        ((), {}),
        ([], {}),
    ],
)
def test_arms_that_differ_as_declared(build: type[Build], *, varies: Any, changes: dict[str, Any]) -> None:
    """A pair is accepted when its arms differ in every path of `varies`, and in nothing outside."""
    assert _pair(build, varies, **changes).title == "new against off"


@pytest.mark.parametrize(
    ("varies", "sentence"),
    [
        ("args.seed", "ArmPair: arms new against off also differ in args.dtype, which `varies` does not name"),
        ("args.se", "ArmPair: arms new against off also differ in args.dtype, args.seed, which `varies` does not name"),
        (("args", "env"), "ArmPair: arms new against off do not differ in env, which `varies` names"),
        (("args.dtype", "args.seed", "engine"), "ArmPair: arms new against off do not differ in engine, which"),
        ((), "ArmPair: arms new against off also differ in args.dtype, args.seed, which `varies` does not name"),
    ],
)
def test_arms_that_differ_in_more_or_less(build: type[Build], *, varies: Any, sentence: str) -> None:
    """Arms that differ outside `varies`, or not in a path of it, are refused and the path is named."""
    with pytest.raises(UsageError) as raised:
        _pair(build, varies, args={"seed": 1, "dtype": "float16"})

    assert str(raised.value).startswith(sentence)


@pytest.mark.parametrize(
    ("varies", "sentence"),
    [
        ("args.x.a", "ArmPair: arms new against off also differ in args.x.b.c, which `varies` does not name"),
        (("args.x", "args.x.d"), "ArmPair: arms new against off do not differ in args.x.d, which `varies` names"),
    ],
)
def test_varies_is_checked_leaf_by_leaf(build: type[Build], *, varies: Any, sentence: str) -> None:
    """A pair that names one leaf of a mapping may not differ in another, nor name one that agrees."""
    with pytest.raises(UsageError) as raised:
        _pair(build, varies, args={"x": {"a": 1, "b": {"c": 2}}})

    assert str(raised.value) == sentence


@pytest.mark.parametrize("varies", [["args.seed"], ("args.seed",), "args.seed"])
def test_paths_of_a_pair_are_a_tuple(build: type[Build], varies: Any) -> None:
    """However `varies` was written, as a text, a list or a tuple, its paths are a tuple."""
    assert _pair(build, varies, args={"seed": 1}).paths == ("args.seed",)


@pytest.mark.parametrize(
    ("varies", "paths"),
    [
        ("args.max-model-len", ("args.max_model_len",)),
        (["args.speculative-config.num-speculative-tokens"], ("args.speculative_config.num_speculative_tokens",)),
        (("args.x.a-b", "env.A-B"), ("args.x.a-b", "env.A-B")),
    ],
)
def test_paths_have_the_names_of_the_arms(build: type[Build], varies: Any, paths: tuple[str, ...]) -> None:
    """`varies` may be spelt as arguments may; parts of other mappings and variables keep their dashes."""
    changes: dict[str, dict[str, Any]] = {
        "args.max_model_len": {"args": {"max-model-len": 32}},
        "args.speculative_config.num_speculative_tokens": {
            "args": {"speculative-config": {"num-speculative-tokens": 4}}
        },
        "args.x.a-b": {"args": {"x": {"a-b": 1}}, "env": {"A-B": "1"}},
    }

    assert _pair(build, varies, **changes[paths[0]]).paths == paths


@pytest.mark.parametrize("varies", [5, None, [5], ("args", None), {"args": 1}])
def test_varies_that_names_no_paths_is_refused(build: type[Build], varies: Any) -> None:
    """What is no path, nor a list of them, is refused with the way to write one."""
    with pytest.raises(UsageError) as raised:
        _pair(build, varies, args={"seed": 1})

    assert str(raised.value) == f"ArmPair: varies names dotted paths, as 'args.speculative_config', got {varies!r}"


def test_both_arms_of_a_pair_need_their_own_name(build: type[Build]) -> None:
    """Two arms of one name could not be told apart in a table."""
    with pytest.raises(UsageError, match="both arms are called 'off'; give each its own name"):
        ArmPair(reference=OFF, candidate=OFF, varies=(), profile=build.profile())


def test_both_arms_serve_one_model(build: type[Build]) -> None:
    """Arms of two models are refused even where `varies` names the model: it is part of the load."""
    with pytest.raises(UsageError, match="arms new against off serve two models"):
        _pair(build, "model", model="other")


@pytest.mark.parametrize("changed", [{"revision": "abc"}, {"revision": None}])
def test_both_arms_serve_one_revision(build: type[Build], changed: dict[str, Any]) -> None:
    """Two revisions, or one and none, could only end as a mismatch of the load after both arms were measured."""
    base = OFF.vary("off", args={"revision": "main"})
    pair: dict[str, Any] = {"reference": base, "profile": build.profile()}
    words = "serve the revisions 'main' and .*; the revision is part of the request profile, so both must serve one$"

    with pytest.raises(UsageError, match=words):
        ArmPair(candidate=base.vary("new", args=changed), varies="args.revision", **pair)
    assert ArmPair(candidate=base.vary("new", args={"seed": 1}), varies="args.seed", **pair).paths == ("args.seed",)


@pytest.mark.parametrize("rounds", [5, 7, 39])
def test_odd_rounds_above_three_are_refused(build: type[Build], rounds: int) -> None:
    """An odd number of rounds above 3 would boot one arm first more often."""
    with pytest.raises(UsageError, match=f"rounds={rounds}: 1, 2, 3 or an even number keeps the boot order balanced"):
        build.pair(rounds=rounds)


@pytest.mark.parametrize("rounds", [0, -2, 42, True, 2.0])
def test_other_impossible_rounds_are_refused(build: type[Build], rounds: Any) -> None:
    """Rounds are a whole number from 1 to 40."""
    with pytest.raises(UsageError, match=r"^ArmPair\.rounds: "):
        build.pair(rounds=rounds)


@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 40])
def test_rounds_of_a_pair_can_be_overridden(build: type[Build], rounds: int) -> None:
    """The session's number of rounds replaces the pair's, and none leaves it."""
    assert build.pair().with_rounds(rounds).rounds == rounds
    assert build.pair(rounds=2).with_rounds(None).rounds == 2


def test_arms_of_pairs_in_order_of_mention(build: type[Build]) -> None:
    """Each arm of a window appears once, references before the candidates they are first mentioned with."""
    pairs = [build.pair(candidate=4), build.pair(candidate=7), build.pair(reference=4, candidate=7)]

    assert [arm.name for arm in arms_of(pairs)] == ["off", "k4", "k7"]


def test_one_name_for_two_arms_is_refused(build: type[Build]) -> None:
    """Two different arms of one window with one name are refused, and their difference is named."""
    other = ArmPair(
        reference=build.arm().vary("off", args={"dtype": "float16"}),
        candidate=build.arm(7),
        varies=("args.speculative_config", "args.dtype"),
        profile=build.profile(),
    )

    with pytest.raises(UsageError, match=r"called 'off' but differ in args\.dtype; rename one$"):
        arms_of([build.pair(), other])


def test_one_name_for_a_flag_and_a_number_is_refused(build: type[Build]) -> None:
    """Arms of one name that differ in True and 1 only are two arms."""
    flag, number = (OFF.vary("off", args={"x": value}) for value in (True, 1))
    pairs = [
        ArmPair(reference=arm, candidate=arm.vary(name, env={"A": "b"}), varies="env.A", profile=build.profile())
        for arm, name in ((flag, "one"), (number, "two"))
    ]

    with pytest.raises(UsageError, match=r"called 'off' but differ in args\.x; rename one$"):
        arms_of(pairs)


def test_boot_order_reverses_every_round(build: type[Build]) -> None:
    """Odd rounds boot the arms as given, even rounds in reverse."""
    arms = arms_of([build.pair(candidate=4), build.pair(candidate=7)])

    orders = [" ".join(arm.name for arm in boot_order(arms, number)) for number in (1, 2, 3)]

    assert orders == ["off k4 k7", "k7 k4 off", "off k4 k7"]
