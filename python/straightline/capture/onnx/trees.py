# SPDX-License-Identifier: Apache-2.0
"""Trees of ONNX as `op.tree_ensemble` reads them: attributes checked, nodes laid out, weights of leaves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from straightline.capture.builder import TensorType
from straightline.capture.extents import Extent
from straightline.capture.graph_builder import Reject, Tensor
from straightline.capture.onnx.importer import Importer, Node
from straightline.capture.onnx.values import Known
from straightline.errors import UserError

#: Decisions of ONNX, in the order of TreeEnsemble's numbers; then ours, and whether their children are exchanged.
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
_MEMBER = 6
_AT_MOST, _BELOW, _EQUAL = 0, 1, 2
_OURS = np.asarray([_AT_MOST, _BELOW, _BELOW, _AT_MOST, _EQUAL, _EQUAL])
_EXCHANGED = np.asarray([False, False, True, True, False, True])
_DECISIONS = ("at_most", "below", "equal")
#: A leaf is a NaN whose low bits number it (codegen/kernels/tree_ensemble.h), by bytes of a number.
_LEAF_BITS = {4: 22, 8: 51}
_LEAF_NAN = {4: 0x7FC00000, 8: 0x7FF8000000000000}
#: Weights of all leaves, for all targets.
_MOST_WEIGHTS = 1 << 30


@dataclass
class Trees:
    """An ensemble as arrays. A child is the number of an inner node, or ~n for leaf n."""

    feature: np.ndarray  # of inner nodes
    value: np.ndarray
    decision: np.ndarray  # _AT_MOST, ...
    missing: np.ndarray  # whether NaN goes to the second child
    first: np.ndarray
    second: np.ndarray  # where the decision holds
    roots: np.ndarray
    leaves: int
    #: One entry for each weight.
    weight_leaf: np.ndarray
    weight_target: np.ndarray
    weight: np.ndarray
    targets: int


def invalid(node: Node, ctx: Importer, words: str) -> UserError:
    """An error in a node's attributes, with the model's node."""
    return UserError(f"{ctx.model}: node '{ctx.location.module}' ({node.kind}): {words}")


def _array(node: Node, name: str) -> np.ndarray | None:
    """An attribute that is a list, or a tensor; None where it is left out."""
    given = node.attribute(name)
    if given is None:
        return None
    if isinstance(given, TensorProto):
        return numpy_helper.to_array(given)
    return np.asarray(given, dtype=np.float32 if given and isinstance(given[0], float) else None)


def numbers(node: Node, name: str) -> np.ndarray | None:
    """Floats of an attribute or of its form for doubles, NAME_as_tensor."""
    wide = _array(node, f"{name}_as_tensor")
    return wide if wide is not None and wide.size else _array(node, name)


class Checked:
    """Reads attributes of a node; each must have as many elements as the first that was read."""

    def __init__(self, node: Node, ctx: Importer) -> None:
        self.node, self.ctx = node, ctx
        self.count: tuple[str, int] | None = None

    def error(self, words: str) -> UserError:
        """An error in the node."""
        return invalid(self.node, self.ctx, words)

    def list(self, name: str, default: Any = None) -> np.ndarray:
        """An attribute; a default is repeated."""
        found = numbers(self.node, name)
        if found is None or not found.size:
            if default is None or self.count is None:
                raise self.error(f"the attribute {name} is missing")
            return np.full(self.count[1], default)
        if self.count is None:
            self.count = (name, found.size)
        if found.size != self.count[1]:
            raise self.error(f"{name} has {found.size} elements but {self.count[0]} has {self.count[1]}")
        return found.reshape(-1)


def trees_of_lists(ctx: Importer, node: Node, kind: str, targets: int) -> Trees:
    """Of TreeEnsembleRegressor and TreeEnsembleClassifier; `kind`: "target" or "class"."""
    read = Checked(node, ctx)
    tree, ids = read.list("nodes_treeids").astype(np.int64), read.list("nodes_nodeids").astype(np.int64)
    begins = np.flatnonzero(np.r_[True, tree[1:] != tree[:-1]])
    if np.unique(tree[begins]).size != begins.size:
        raise read.error("nodes_treeids: the nodes of a tree do not stand side by side")
    modes = _modes(read)
    is_leaf = modes == -1
    places = _Places(read, tree, ids)
    inner = np.flatnonzero(~is_leaf)
    code = np.where(is_leaf, ~(np.cumsum(is_leaf) - 1), np.cumsum(~is_leaf) - 1)

    def children(name: str) -> np.ndarray:
        given = read.list(name).astype(np.int64)
        return code[places.of(tree[inner], given[inner], lambda i: f"{name}[{inner[i]}]")]

    yes, no = children("nodes_truenodeids"), children("nodes_falsenodeids")
    values = read.list("nodes_values", 0.0)
    feature = read.list("nodes_featureids").astype(np.int64)
    missing = read.list("nodes_missing_value_tracks_true", 0).astype(bool)
    lists = Checked(node, ctx)
    target = lists.list(f"{kind}_ids").astype(np.int64)
    at = places.of(
        lists.list(f"{kind}_treeids").astype(np.int64),
        lists.list(f"{kind}_nodeids").astype(np.int64),
        lambda i: f"{kind}_nodeids[{i}]",
    )
    weight = lists.list(f"{kind}_weights")
    _check_targets(read, target, targets, f"{kind}_ids")
    kept = is_leaf[at]  # a weight of an inner node counts for nothing
    return _canonical(
        read, feature[inner], values[inner], modes[inner], missing[inner], yes, no, lambda i: f"nodes_values[{inner[i]}]",
        roots=code[begins], leaves=int(is_leaf.sum()), weight_leaf=~code[at[kept]], weight_target=target[kept],
        weight=weight[kept], targets=targets,
    )  # fmt: skip


def _check_targets(read: Checked, target: np.ndarray, targets: int, name: str) -> None:
    wrong = np.flatnonzero((target < 0) | (target >= targets))
    if wrong.size:
        raise read.error(f"{name}[{wrong[0]}] is {target[wrong[0]]} but there are {targets}")


def _modes(read: Checked) -> np.ndarray:
    """Places among _MODES, -1 for leaves."""
    given = read.node.attribute("nodes_modes")
    if not given:
        raise read.error("the attribute nodes_modes is missing")
    if len(given) != read.count[1]:  # type: ignore[index]
        raise read.error(f"nodes_modes has {len(given)} elements but {read.count[0]} has {read.count[1]}")  # type: ignore[index]
    names, where = np.unique(np.asarray(given), return_inverse=True)
    for name in names:
        if name not in (*_MODES, "LEAF"):
            raise read.error(f"nodes_modes has {str(name)!r} but LEAF or one of {', '.join(_MODES)} is needed")
    return np.asarray([-1 if name == "LEAF" else _MODES.index(name) for name in names])[where]


class _Places:
    """Finds nodes by tree and number."""

    def __init__(self, read: Checked, tree: np.ndarray, ids: np.ndarray) -> None:
        self.read, self.tree, self.ids = read, tree, ids
        self.order = np.lexsort((ids, tree))
        trees, numbers = tree[self.order], ids[self.order]
        twice = np.flatnonzero((trees[1:] == trees[:-1]) & (numbers[1:] == numbers[:-1]))
        if twice.size:
            raise read.error(f"nodes_nodeids: tree {trees[twice[0]]} has two nodes {numbers[twice[0]]}")
        self.least = ids.min()
        self.span = int(ids.max() - self.least) + 1
        self.keys = (trees - tree.min()) * self.span + numbers - self.least

    def of(self, tree: np.ndarray, ids: np.ndarray, name: Any) -> np.ndarray:
        """Places among the nodes; `name(i)` names the i-th that is asked for."""
        key = (tree - self.tree.min()) * self.span + ids - self.least
        at = np.minimum(np.searchsorted(self.keys, key), self.keys.size - 1)
        wrong = np.flatnonzero((self.keys[at] != key) | (ids < self.least) | (ids - self.least >= self.span))
        if wrong.size:
            raise self.read.error(
                f"{name(wrong[0])} is node {ids[wrong[0]]} of tree {tree[wrong[0]]}, which has no such node"
            )
        return self.order[at]


def _canonical(
    read: Checked, feature: np.ndarray, value: np.ndarray, modes: np.ndarray, missing: np.ndarray, yes: np.ndarray,
    no: np.ndarray, name: Any, **others: Any,
) -> Trees:  # fmt: skip
    """With three decisions: the others exchange the children, and send NaN where they would have sent it."""
    wrong = np.flatnonzero(np.isnan(value))
    if wrong.size:
        raise read.error(f"{name(wrong[0])} is NaN, which no number can be compared with")
    wrong = np.flatnonzero(feature < 0)
    if wrong.size:
        raise read.error(f"nodes_featureids has the feature {feature[wrong[0]]}")
    exchanged = _EXCHANGED[modes]
    never = _MODES.index("BRANCH_NEQ")  # holds for NaN
    second_gets_nan = np.where(exchanged, ~missing & (modes != never), missing)
    return Trees(
        feature, value, _OURS[modes], second_gets_nan, np.where(exchanged, yes, no), np.where(exchanged, no, yes), **others
    )  # fmt: skip


def trees_of_splits(ctx: Importer, node: Node) -> Trees:
    """Of TreeEnsemble (op set 5), whose leaves have numbers of their own; sets become chains of equalities."""
    read = Checked(node, ctx)
    feature = read.list("nodes_featureids").astype(np.int64)
    modes, value = read.list("nodes_modes").astype(np.int64), read.list("nodes_splits")
    missing = read.list("nodes_missing_value_tracks_true", 0).astype(bool)
    if wrong := [int(m) for m in np.unique(modes) if not 0 <= m <= _MEMBER]:
        raise read.error(f"nodes_modes has {wrong[0]} but 0 to {_MEMBER} are needed")
    leaf = Checked(node, ctx)
    target, weight = leaf.list("leaf_targetids").astype(np.int64), leaf.list("leaf_weights")
    targets = int(node.attribute("n_targets", 1))
    _check_targets(leaf, target, targets, "leaf_targetids")

    def children(side: str) -> np.ndarray:
        ids, leaves = read.list(f"nodes_{side}nodeids").astype(np.int64), read.list(f"nodes_{side}leafs").astype(bool)
        wrong = np.flatnonzero((ids < 0) | (ids >= np.where(leaves, target.size, feature.size)))
        if wrong.size:
            raise read.error(
                f"nodes_{side}nodeids[{wrong[0]}] is {ids[wrong[0]]} but there are "
                + (f"{target.size} leaves" if leaves[wrong[0]] else f"{feature.size} nodes")
            )
        return np.where(leaves, ~ids, ids)

    yes, no = children("true"), children("false")
    roots = np.asarray(node.attribute("tree_roots", []), dtype=np.int64)
    wrong = np.flatnonzero((roots < 0) | (roots >= feature.size))
    if wrong.size or not roots.size:
        raise read.error(f"tree_roots is {list(roots)} but there are {feature.size} nodes")
    # a tree of one leaf is a node whose children are that leaf
    roots = np.where((yes[roots] < 0) & (yes[roots] == no[roots]), yes[roots], roots)
    sets = modes == _MEMBER
    found = _canonical(
        read, feature, np.where(sets, 0, value), np.where(sets, _MODES.index("BRANCH_EQ"), modes), missing, yes, no,
        lambda i: f"nodes_splits[{i}]", roots=roots, leaves=target.size, weight_leaf=np.arange(target.size),
        weight_target=target, weight=weight, targets=targets,
    )  # fmt: skip
    return _with_sets(read, found, np.flatnonzero(sets), _array(node, "membership_values"))


def _with_sets(read: Checked, trees: Trees, at: np.ndarray, members: np.ndarray | None) -> Trees:
    """A node for each member of a set, in a chain: the second child of each is the set's."""
    if not at.size:
        return trees
    ends = np.flatnonzero(np.isnan(members)) if members is not None else np.zeros(0, np.int64)
    if members is None or ends.size != at.size:
        raise read.error(
            f"membership_values has {ends.size} sets (NaN ends one) but nodes_modes {at.size} BRANCH_MEMBER"
        )
    grown = {name: [getattr(trees, name)] for name in ("feature", "value", "decision", "missing", "first", "second")}
    first, value, count = trees.first.copy(), trees.value.astype(members.dtype), trees.feature.size
    for place, begin, end in zip(at, np.r_[0, ends[:-1] + 1], ends):
        chain = members[begin:end]
        value[place] = chain[0] if chain.size else np.nan  # nothing is equal to NaN
        more = max(int(chain.size) - 1, 0)
        for name in ("feature", "decision", "missing", "second"):
            grown[name].append(np.full(more, getattr(trees, name)[place]))
        grown["value"].append(chain[1:])
        grown["first"].append(
            np.r_[np.arange(count + 1, count + more), [trees.first[place]] * bool(more)].astype(np.int64)
        )
        if more:
            first[place] = count
        count += more
    grown["value"][0], grown["first"][0] = value, first
    return replace(trees, **{name: np.concatenate(parts) for name, parts in grown.items()})


def _ordered(trees: Trees, read: Checked) -> tuple[np.ndarray, int]:
    """Inner nodes that a root leads to, those of a tree side by side and parents before children; decisions of a way, at most.

    Raises:
        UserError: A way comes back to a node.
    """
    count = trees.feature.size
    parent = np.full(count, -1)
    edges = np.concatenate((trees.first, trees.second))
    ends = edges >= 0
    places = np.tile(np.arange(count), 2)[ends]
    times = np.bincount(edges[ends], minlength=count)
    parent[edges[ends]] = places
    inner_roots = trees.roots[trees.roots >= 0]
    if (times + np.bincount(inner_roots, minlength=count) > 1).any():
        return _ordered_by_levels(trees, read)
    is_root = np.zeros(count, dtype=bool)
    is_root[inner_roots] = True
    # steps up to the top of each node by doubling: those of a cycle never end
    up, depth = np.where(parent < 0, np.arange(count), parent), (parent >= 0).astype(np.int64)
    for _ in range(int(count).bit_length() + 1):
        if (up[up] == up).all():
            break
        depth, up = depth + depth[up], up[up]
    cyclic = np.flatnonzero(parent[up] >= 0)
    if cyclic.size:
        raise read.error(_cycle(int(cyclic[0])))
    tree = np.zeros(count, dtype=np.int64)
    tree[inner_roots] = np.arange(inner_roots.size)
    kept = np.flatnonzero(is_root[up])
    order = kept[np.lexsort((kept, depth[kept], tree[up[kept]]))]
    return order, int(depth[kept].max()) + 1 if kept.size else 0


def _cycle(place: int) -> str:
    return f"the nodes have a cycle: nodes_truenodeids and nodes_falsenodeids lead back to the inner node {place}"


def _ordered_by_levels(trees: Trees, read: Checked) -> tuple[np.ndarray, int]:
    """As `_ordered`, for nodes that several lead to: each stands behind all of them."""
    count = trees.feature.size
    reached = np.zeros(count, dtype=bool)
    level = np.unique(trees.roots[trees.roots >= 0])
    while level.size:
        reached[level] = True
        level = np.concatenate((trees.first[level], trees.second[level]))
        level = np.unique(level[level >= 0])
        level = level[~reached[level]]
    edges = np.concatenate((trees.first[reached], trees.second[reached]))
    open_ = np.bincount(edges[edges >= 0], minlength=count)
    order, depth, level = [], 0, np.flatnonzero(reached & (open_ == 0))
    while level.size:
        order.append(level)
        depth += 1
        edges = np.concatenate((trees.first[level], trees.second[level]))
        np.subtract.at(open_, edges[edges >= 0], 1)
        edges = np.unique(edges[edges >= 0])
        level = edges[open_[edges] == 0]
    found = np.concatenate(order) if order else np.zeros(0, np.int64)
    if found.size != reached.sum():
        left = reached.copy()
        left[found] = False
        raise read.error(_cycle(int(np.flatnonzero(left)[0])))
    return found, depth


@dataclass
class Packed:
    """What `op.tree_ensemble` is given."""

    nodes: np.ndarray
    weights: np.ndarray
    columns: np.ndarray | None
    decision: str
    missing: bool
    feature_bits: int
    depth: int


def packed(trees: Trees, read: Checked, aggregate: str, wide: bool) -> Packed:
    """Nodes in the order in which ways pass them; `wide`: numbers are doubles."""
    order, depth = _ordered(trees, read)
    roots = trees.roots.size
    # record 2i and 2i + 1 behind the roots are the children of order[i]
    pair = np.zeros(trees.feature.size, dtype=np.int64)
    pair[order] = roots + 2 * np.arange(order.size)
    codes = np.concatenate((trees.roots, np.stack((trees.first[order], trees.second[order]), axis=1).reshape(-1)))
    is_leaf = codes < 0
    used, row = np.unique(~codes[is_leaf], return_inverse=True)
    decisions = np.unique(trees.decision[order])
    mixed, missing = decisions.size > 1, bool(trees.missing[order].any())
    features = int(trees.feature[order].max(initial=0)) + 1
    flags = missing + 2 * mixed
    if features > 1 << 24:
        raise Reject(f"{features} features", f"{1 << 24}")
    fits = lambda bits: features <= 1 << bits and codes.size <= 1 << (32 - bits - flags)  # noqa: E731
    narrow = [bits for bits in (8, 16, max(int(features - 1).bit_length(), 1)) if fits(bits)]
    size = 4 if narrow and used.size <= 1 << _LEAF_BITS[4] and not wide else 8
    bits = narrow[0] if size == 4 else max(int(features - 1).bit_length(), 8)
    inner = np.where(is_leaf, 0, codes) if order.size else np.zeros(codes.size, np.int64)
    take = (lambda array: array[inner]) if order.size else (lambda array: np.zeros(codes.size, array.dtype))
    link = np.where(is_leaf, np.arange(codes.size), take(pair)).astype(np.uint64) << np.uint64(bits + flags)
    rest = take(trees.feature)
    if missing:
        rest = rest | take(trees.missing).astype(np.int64) << bits
    if mixed:
        rest = rest | take(trees.decision) << (bits + missing)
    link |= np.where(is_leaf, 0, rest).astype(np.uint64)
    unsigned, signed = (np.uint32, np.int32) if size == 4 else (np.uint64, np.int64)
    number = take(trees.value).astype(np.float32 if size == 4 else np.float64).view(unsigned)
    number[is_leaf] = unsigned(_LEAF_NAN[size]) | row.astype(unsigned)
    nodes = np.stack((number, link.astype(unsigned)), axis=1).view(signed)
    weights, columns = _weights(trees, used, aggregate, order, read)
    decision = "mixed" if mixed else _DECISIONS[int(decisions[0])] if decisions.size else "at_most"
    return Packed(nodes, weights, columns, decision, missing, bits, depth)


def _weights(
    trees: Trees, used: np.ndarray, aggregate: str, order: np.ndarray, read: Checked
) -> tuple[np.ndarray, np.ndarray | None]:
    """Rows of weights of the leaves in use, [l, targets]; or [l, 1] and a column for each tree, where its leaves have one."""
    row = np.full(trees.leaves, -1)
    row[used] = np.arange(used.size)
    kept = row[trees.weight_leaf] >= 0
    at, target, weight = row[trees.weight_leaf[kept]], trees.weight_target[kept], trees.weight[kept]
    columns = _columns(trees, order) if trees.targets > 1 else None
    width = 1 if trees.targets == 1 or columns is not None else trees.targets
    if used.size * width > _MOST_WEIGHTS:
        raise Reject(f"{used.size} leaves of {width} targets", f"{_MOST_WEIGHTS} weights")
    fill = {"sum": 0, "max": -np.inf, "min": np.inf}[aggregate]
    combine = {"sum": np.add, "max": np.maximum, "min": np.minimum}[aggregate]
    weights = np.full((used.size, width), fill, dtype=weight.dtype)
    combine.at(weights, (at, np.where(width == 1, 0, target)), weight)
    return weights, columns


def _columns(trees: Trees, order: np.ndarray) -> np.ndarray | None:
    """The target of each tree, where all leaves that it leads to have a weight for no other one."""
    count = trees.feature.size
    owner = np.full(count, -1)
    roots = trees.roots >= 0
    owner[trees.roots[roots]] = np.flatnonzero(roots)
    leaf_owner = np.full(trees.leaves, -1)
    leaf_owner[~trees.roots[~roots]] = np.flatnonzero(~roots)
    edges = np.concatenate((trees.first[order], trees.second[order]))
    if np.unique(edges).size != edges.size or (np.isin(edges, trees.roots)).any():
        return None  # trees share nodes
    up = np.arange(count)
    places = np.tile(order, 2)
    up[edges[edges >= 0]] = places[edges >= 0]
    for _ in range(int(count).bit_length() + 1):
        up = up[up]
    leaf_owner[~edges[edges < 0]] = owner[up[places[edges < 0]]]
    tree = leaf_owner[trees.weight_leaf]
    tree, target = tree[tree >= 0], trees.weight_target[tree >= 0]
    columns = np.zeros(trees.roots.size, dtype=np.int32)
    columns[tree] = target
    return columns if (columns[tree] == target).all() else None


def ensemble(ctx: Importer, read: Checked, x: Tensor, trees: Trees, aggregate: str, wide: bool) -> Tensor:
    """What the leaves that rows of x reach give, [n, targets], in f32 or f64."""
    if x.rank != 2:
        raise Reject(f"features of rank {x.rank}", "rank 2")
    found = packed(trees, read, aggregate, wide)
    features = int(trees.feature.max(initial=0)) + 1
    width = x.extents[1]
    if isinstance(width, Extent):
        raise Reject(f"the named number of features {width}", f"a number: sizes={{{str(width)!r}: {features}}}")
    if width < features:
        place = int(trees.feature.argmax())
        raise read.error(
            f"nodes_featureids has the feature {features - 1} (inner node {place}) but x has {width} features"
        )
    dtype = "f64" if wide else "f32"
    weights = found.weights.astype(np.float64 if wide else np.float32)
    operands = [x, ctx.tensor(Known(found.nodes)), ctx.tensor(Known(weights))]
    if found.columns is not None:
        operands.append(ctx.tensor(Known(found.columns)))
    return ctx.emit_one(
        "tree_ensemble", operands, TensorType(dtype, (x.extents[0], trees.targets)),
        {"trees": trees.roots.size, "decision": found.decision, "aggregate": aggregate, "feature_bits": found.feature_bits,
         "missing": found.missing, "depth": found.depth},
    )  # fmt: skip
