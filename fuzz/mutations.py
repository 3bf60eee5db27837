"""Small changes at each place of a valid input: JSON trees and bytes."""

import copy

from hypothesis import strategies as st

__all__ = ["JUNK", "changed_bytes", "changed_trees", "each_place", "each_shift", "trees"]

# Values of a wrong type or range for most places.
_INF = float("inf")
JUNK = st.sampled_from([
    None, True, False, 0, 1, -1, 2, 0.5, -0.0, 1e-320, 1e308, _INF, -_INF, float("nan"), 2**53, 2**64,
    -(2**63), 10**18, 10**19, 10**400, "", " ", "0", "1", "inf", "nan", "\n", "\0", "\ud800", "é",
    "other", "missing", "clip", "continuous", "integer", "ordered", "categorical", "boolean", "replace_one",
    "add_remove", "gdp", "zcdp", "moments", "advanced", "linear", "gaussian", "laplace", "composed",
    "estimated", [], {}, [[]], [0, 1], [1, 0], ["a", "b"], [1, True], [None], {"a": 1},
])  # fmt: skip


def trees(leaves=JUNK):
    """Draw trees of lists and mappings."""
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["a", "kind", ""]), inner, max_size=3)
        ),
        max_leaves=5,
    )


def paths_of(tree):
    """Return the paths of all nodes of a tree, as keys from the root."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [(), *((key, *path) for key, inner in items for path in paths_of(inner))]


def _at(tree, path):
    for key in path:
        tree = tree[key]
    return tree


def _with(tree, path, change, value):
    """Return a tree with one node replaced, removed, put into a list, or repeated."""
    if not path:
        return value
    tree = copy.deepcopy(tree)
    parent, key = _at(tree, path[:-1]), path[-1]
    if change == "replace":
        parent[key] = value
    elif change == "remove":
        del parent[key]
    elif change == "nest":
        parent[key] = [parent[key]]
    elif isinstance(parent, list):
        parent.append(parent[key])
    else:
        parent[str(value)[:9]] = parent[key]
    return tree


@st.composite
def changed_trees(draw, whole, values=JUNK):
    """Draw a valid tree, one in three with a change, and the change to try at each place."""
    tree = draw(st.sampled_from(whole))
    if draw(st.integers(0, 2)) == 0:
        change = draw(st.sampled_from(["replace", "remove", "nest", "repeat"]))
        tree = _with(tree, draw(st.sampled_from(paths_of(tree))), change, draw(values))
    return (
        tree,
        draw(st.sampled_from(["replace", "replace", "replace", "remove", "nest", "repeat"])),
        draw(values),
    )


def each_place(drawn, most=40):
    """Yield a tree, and the tree with the same change at each place (at some, if there are many)."""
    tree, change, value = drawn
    places = paths_of(tree)[1:]
    yield tree
    for path in places[:: 1 + len(places) // most]:
        yield _with(tree, path, change, value)


def changed_bytes(whole):
    """Draw valid bytes and changes to them."""
    change = st.tuples(
        st.sampled_from(["flip", "flip", "set", "insert", "cut", "end", "swap", "zero"]),
        st.integers(0, 2**16 - 1),
        st.integers(0, 255),
    )
    return st.tuples(st.sampled_from(whole), st.lists(change, min_size=1, max_size=3))


def each_shift(drawn, times=16):
    """Yield the bytes with these changes, and with the same changes further on, through all of them."""
    content, changes = drawn
    for k in range(times):
        yield _bytes_with(content, changes, k * 2**16 // times)


def _bytes_with(content, changes, shift):
    found = bytearray(content)
    for change, where, value in changes:
        place = ((where + shift) % 2**16) * len(found) >> 16
        if change == "flip" and found:
            found[place] ^= 1 << value % 8
        elif change == "set" and found:
            found[place] = value
        elif change == "insert":
            found[place:place] = bytes([value]) * (1 + value % 7)
        elif change == "cut":
            del found[place : place + 1 + value % 32]
        elif change == "end":
            del found[place:]
        elif change == "swap":
            found[place : place + 8], found[-8:] = found[-8:], found[place : place + 8]
        elif change == "zero":
            found[place : place + 8] = bytes(8)
    return bytes(found)
