"""What a Target accepts, how it names things, and what it says about everything else."""

import datetime
import functools
import tempfile

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import amalt
from amalt.assemble import constrained_dataset
from amalt.storage.archive import write_tree


def gaussian(position):
    return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(position))


def target_of(example, **options):
    return amalt.Target(gaussian, example, **options)


def names_and_shapes(target):
    return [(variable.name, variable.shape) for variable in target.variables]


# --- positions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("example", "expected"),
    [
        (0.0, [("x", ())]),
        (3, [("x", ())]),
        (np.float64(1.0), [("x", ())]),
        (np.zeros((2, 3)), [("x", (2, 3))]),
        ({"a": 1, "b": jnp.zeros(2)}, [("a", ()), ("b", (2,))]),
        ({"a": None, "b": 1.0}, [("b", ())]),
        (
            {"a": {"b": jnp.zeros(2), "c": (1.0, 2.0)}},
            [("a.b", (2,)), ("a.c.0", ()), ("a.c.1", ())],
        ),
        ([1.0, [2.0]], [("0", ()), ("1.0", ())]),
        ({"µ β": jnp.zeros(1)}, [("µ β", (1,))]),
        ({"a": jnp.zeros((0, 3)), "b": 1.0}, [("a", (0, 3)), ("b", ())]),
        ({1: 1.0, 2: 2.0}, [("1", ()), ("2", ())]),
    ],
)
def test_any_pytree_of_numbers_is_a_position(example, expected):
    target = target_of(example)
    assert names_and_shapes(target) == expected
    assert target.dim == sum(np.prod(shape, dtype=int) for _, shape in expected)
    z = jnp.arange(2.0 * target.dim).reshape(2, target.dim)
    constrained = target.constrain(z)
    flat = [np.reshape(constrained[name], (2, -1)) for name, _ in expected]
    np.testing.assert_array_equal(np.concatenate(flat, axis=1), z)
    assert float(target.logdensity(z[0])) == pytest.approx(-0.5 * float(jnp.sum(z[0] ** 2)))


@pytest.mark.parametrize(
    ("example", "message"),
    [
        ({}, "holds no numbers"),
        (None, "holds no numbers"),
        ({"a": None}, "holds no numbers"),
        (jnp.zeros(0), "holds no numbers"),
        ({"a": jnp.arange(3)}, "'a' in the example position has dtype int32"),
        (True, "'x' in the example position has dtype bool"),
        (1j, "'x' in the example position has dtype complex64"),
        (jnp.zeros(2, jnp.float16), "has dtype float16; it must be float32 or float64: convert"),
        (jnp.zeros(2, jnp.bfloat16), "has dtype bfloat16"),
        (jax.random.key(1), "has dtype key<fry>"),
        ({"a": "hello"}, "'a' in the example position is a str, not an array"),
        (["a", "b"], "'0' in the example position is a str"),
        (object(), "'x' in the example position is a object"),
        (np.array([[1, 2], [3]], dtype=object), "not an array"),
        (10**400, "not an array"),
        ({"a": {"b": 1.0}, "a.b": 2.0}, "two parts of the example position are called 'a.b'"),
        ({1: 1.0, "a": 1.0}, "cannot be sorted: use strings"),
    ],
)
def test_what_is_not_a_position_is_refused(example, message):
    with pytest.raises(amalt.TargetError, match=message):
        target_of(example)


# --- names, dims and coords --------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["a/b", "a\\b", "..", ".zattrs", "a\nb", "a\0b", "chain", "draw", "n" * 201]
)
def test_names_that_files_cannot_hold_are_refused_before_the_run(name):
    with pytest.raises(amalt.TargetError, match=r"cannot name a variable|too many to name"):
        target_of({name: 1.0})
    # A constrained name is another matter: it replaces the name of the leaf.
    target = target_of({name: 1.0}, constrain=lambda x: {"good": x[name]})
    assert names_and_shapes(target) == [("good", ())]


TEXT = st.one_of(
    st.text(min_size=1, max_size=6),
    st.text("aA0._-/\\ \t:*?ü東", min_size=1, max_size=6),
    st.sampled_from(["", ".", "..", ".zarray", "con", "__x__", "c", "0", "a" * 200, "é" * 101]),
)


@hypothesis.given(name=TEXT, dim=TEXT, label=TEXT)
@hypothesis.settings(max_examples=60)
def test_every_name_is_refused_at_once_or_comes_back_from_a_file(name, dim, label):
    try:
        target = target_of(
            {"x": jnp.zeros(1)},
            constrain=lambda x: {name: x["x"]},
            dims={name: (dim,)},
            coords={dim: [label]},
        )
    except amalt.TargetError:
        return
    dataset = constrained_dataset(target, np.ones((2, 3, 1)))
    with tempfile.TemporaryDirectory() as directory:
        path = write_tree(
            xr.DataTree.from_dict({"posterior": dataset}), directory + "/fit", overwrite=False
        )
        with xr.open_datatree(path, engine="zarr") as tree:
            again = tree["posterior"].to_dataset()
            assert again[name].dims == ("chain", "draw", dim)
            assert again[dim].values.tolist() == [label.rstrip("\0")]  # as NumPy holds strings
            np.testing.assert_array_equal(again[name], np.ones((2, 3, 1)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dims": {"c": ("i",)}}, r"dims names 'c', which is not one of \['a', 'b'\]"),
        ({"dims": {"a": ("i", "j")}}, r"has 2 names for shape \(3,\)"),
        ({"dims": {"b": ("i", "i")}}, "holds a name twice"),
        ({"dims": {"a": "i"}}, r"dims\['a'\] is 'i': pass a tuple"),
        ({"dims": {"a": 3}}, r"dims\['a'\] is 3: pass a tuple"),
        ({"dims": {"a": (3,)}}, "3 cannot name a dimension"),
        ({"dims": {"a": ("",)}}, "'' cannot name a dimension"),
        ({"dims": {"a": ("chain",)}}, "'chain' cannot name a dimension: amalt itself needs it"),
        ({"dims": {"a": ("i/j",)}}, "cannot name a dimension"),
        ({"dims": {"a": ("a",)}}, "'a' is the name of a variable and of a dimension"),
        ({"dims": {"a": ("i",), "b": ("i", "j")}}, "'i' has length 3 in 'a' and 2 in 'b'"),
        ({"dims": [("a", "i")]}, "dims is a list: pass a dictionary"),
        ({"coords": {"scholl": [1]}, "dims": {"a": ("school",)}}, "Did you mean 'school'"),
        ({"coords": {"a_dim_0": [1, 2]}}, "has 2 labels for the length 3 of 'a'"),
        ({"coords": {"a_dim_0": "abc"}}, "is 'abc': pass a list"),
        ({"coords": {"a_dim_0": 3}}, "is 3: pass a list"),
        ({"coords": {"a_dim_0": [(1, 2), (3, 4), (5, 6)]}}, "cannot be stored"),
        ({"coords": {"a_dim_0": [None, 1, 2]}}, "cannot be stored"),
        ({"coords": {"a_dim_0": ["u", 1, 2]}}, "cannot be stored"),
        ({"coords": {"a_dim_0": [[1], [1, 2], 3]}}, "cannot be stored"),
        ({"coords": {"a_dim_0": [b"a", b"b", b"c"]}}, "cannot be stored"),
        ({"coords": 3}, "coords is a int: pass a dictionary"),
        ({"name": 3}, "name=3 is a int: pass a string"),
        ({"constrain": 3}, "constrain is a int, which cannot be called"),
    ],
)
def test_labels_that_do_not_fit_are_refused(options, message):
    with pytest.raises(amalt.TargetError, match=message):
        target_of({"a": jnp.zeros(3), "b": jnp.zeros((2, 2))}, **options)


def test_a_default_dimension_that_is_a_variable_is_refused():
    with pytest.raises(amalt.TargetError, match="'a_dim_0' is the name of a variable and of a dim"):
        target_of({"a": jnp.zeros(2), "a_dim_0": 1.0})


@pytest.mark.parametrize(
    "labels",
    [
        ["a", "b", "ü/x"],
        [3, 1, 2],
        (0.5, 1.5, 2.5),
        np.array(["a", "b", "c"]),
        [datetime.datetime(2020, 1, day) for day in (1, 2, 3)],
        pd.date_range("2020-01-01", periods=3),
        np.array(["2020-01", "2020-02", "2020-03"], dtype="datetime64[M]"),
        range(3),
    ],
)
def test_labels_of_one_kind_are_accepted(labels):
    target = target_of({"a": jnp.zeros(3)}, dims={"a": ["i"]}, coords={"i": labels})
    assert target.coords["i"] == list(labels)
    assert target.dims == {"a": ("i",)}


def test_elements_are_named_by_leaf_and_index():
    target = target_of({"a": jnp.zeros((2, 2)), "b": 0.0})
    assert [target.element(i) for i in range(5)] == [
        "a[0, 0]",
        "a[0, 1]",
        "a[1, 0]",
        "a[1, 1]",
        "b",
    ]
    with pytest.raises(IndexError):
        target.element(5)


# --- log densities -----------------------------------------------------------------------------


def needs_numpy(x):
    return -0.5 * np.sum(np.exp(x))


def needs_float(x):
    return float(x[0])


def needs_if(x):
    return -x[0] if x[0] > 0 else x[0]


def needs_index(x):
    return [0.0, 1.0][x[0].astype(int)]


def needs_mask(x):
    return jnp.sum(x[x > 0])


@pytest.mark.parametrize(
    ("logdensity", "message"),
    [
        (lambda x: -(x[:1] ** 2), r"returned shape \(1,\); it must return one number"),
        (lambda x: jnp.sum(x).astype(int), "returned dtype int32; it must be a floating-point"),
        (lambda x: x[0] > 0, "returned dtype bool"),
        (lambda x: jnp.sum(x).astype(complex), "returned dtype complex64"),
        (lambda x: (jnp.sum(x), 1.0), "returned a tuple; it must return one real number"),
        (lambda x: [jnp.sum(x)], "returned a list"),
        (lambda x: {"lp": jnp.sum(x)}, "returned a dict"),
        (lambda x: None, "returned a NoneType"),
        (lambda x: "a", "returned a str"),
        (lambda x: 1, "returned dtype int32"),
        (needs_numpy, "'needs_numpy' turns a traced array into a NumPy array.*jax.numpy"),
        (needs_float, "needs the value of a position where JAX knows only its shape"),
        (needs_if, "needs the value .* jnp.where"),
        (needs_index, "needs the value"),
        (needs_mask, "needs the value"),
    ],
)
def test_log_densities_that_cannot_be_sampled_are_explained(logdensity, message):
    with pytest.raises(amalt.TargetError, match=message):
        amalt.sample(amalt.Target(logdensity, jnp.zeros(2)), chains=2)


class MineError(Exception):
    """Stand for an error of the user's own function."""


def test_exceptions_of_the_user_propagate_untouched():
    error = MineError("mine")

    def logdensity(x):
        raise error

    with pytest.raises(MineError) as caught:
        amalt.sample(amalt.Target(logdensity, jnp.zeros(2)), chains=2)
    assert caught.value is error
    with pytest.raises(MineError) as caught:
        amalt.Target(gaussian, jnp.zeros(2), constrain=logdensity)
    assert caught.value is error


@pytest.mark.parametrize(
    ("function", "name"), [(functools.partial(gaussian), "target"), (lambda x: x, "lambda")]
)
def test_a_name_is_found_for_every_function(function, name):
    assert amalt.Target(function, 0.0).name == name


def test_what_cannot_be_called_is_refused():
    with pytest.raises(amalt.TargetError, match="logdensity_fn is a float, which cannot be called"):
        amalt.Target(1.0, 0.0)


# --- constrain ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("constrain", "message"),
    [
        (lambda x: x, "returned an array of dtype float32; it must return a dictionary"),
        (lambda x: (x,), "returned a tuple; it must return a dictionary"),
        (lambda x: None, "returned None; it must return a dictionary"),
        (lambda x: {}, r"returned \{\}; it must return a dictionary"),
        (lambda x: {1: x}, "returned the key 1: names must be strings"),
        (lambda x: {"a": "text"}, "returned a str for 'a'"),
        (lambda x: {"a": {"b": x}}, "returned a dict for 'a'"),
        (lambda x: {"a": [x, x]}, "returned a list for 'a'"),
        (lambda x: {"a": x.astype(complex)}, "returned an array of dtype complex64 for 'a'"),
        (lambda x: {"a": x.astype(jnp.bfloat16)}, "returned an array of dtype bfloat16 for 'a'"),
        (lambda x: {"a": jax.random.key(1)}, "for 'a'; it must be an array"),
        (lambda x: {"a": np.exp(x)}, "turns a traced array into a NumPy array"),
        (lambda x: {"a": 1.0 if x[0] > 0 else 0.0}, "needs the value"),
        (lambda x: {"chain": x}, "'chain' cannot name a variable"),
    ],
)
def test_constrain_that_returns_something_else_is_refused(constrain, message):
    with pytest.raises(amalt.TargetError, match=message):
        target_of(jnp.zeros(2), constrain=constrain)


def test_constrain_may_return_integers_booleans_and_constants():
    target = target_of(
        jnp.zeros(2),
        constrain=lambda x: {"n": jnp.sum(x > 0), "is_up": x > 0, "one": 1.0, "old": np.arange(2)},
    )
    values = target.constrain(np.array([[1.0, -1.0], [2.0, 3.0]]))
    np.testing.assert_array_equal(values["n"], [1, 2])
    np.testing.assert_array_equal(values["is_up"], [[True, False], [True, True]])
    np.testing.assert_array_equal(values["one"], [1.0, 1.0])
    np.testing.assert_array_equal(values["old"], [[0, 1], [0, 1]])


@pytest.mark.parametrize("shape", [(), (3,), (2, 1)])
def test_constrain_refuses_vectors_of_another_length(shape):
    with pytest.raises(amalt.TargetError, match="its last axis must have length 2"):
        target_of(jnp.zeros(2)).constrain(np.zeros(shape))


# --- as_target ---------------------------------------------------------------------------------


def test_as_target_explains_what_it_cannot_take():
    with pytest.raises(amalt.TargetError, match="does not tell the shape of its argument"):
        amalt.as_target(gaussian)
    with pytest.raises(amalt.TargetError, match="cannot sample a dict"):
        amalt.as_target({})
    with pytest.raises(amalt.SettingsError, match=r"no built-in posterior 'bananna'.*'banana'"):
        amalt.as_target("bananna")
    assert amalt.as_target("banana").name == "banana"


def test_leaves_can_be_named():
    target = amalt.Target(
        lambda p: -(p[0] ** 2).sum() - p[1] ** 2, (jnp.zeros(2), 0.0), names=["a", "b"]
    )
    assert [v.name for v in target.variables] == ["a", "b"]
    assert target.element(1) == "a[1]"


@pytest.mark.parametrize("names", ["ab", ["a"], ["a", "a"], ["a", 3], ["a", "b/c"], 7])
def test_bad_names_of_leaves_are_refused(names):
    with pytest.raises(amalt.TargetError):
        target_of((0.0, 0.0), names=names)
