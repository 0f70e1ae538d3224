# SPDX-License-Identifier: Apache-2.0
"""Writes of a captured graph as values, where nothing else sees the memory that they overwrite.

torch does this for any graph by tracing it again (`torch.func.functionalize` says how), which takes longer than the export
before it. Most models that write do it plainly: `nn.ReLU(inplace=True)` behind a convolution, a cache or a counter that is
a buffer. These need a new name for the new value and no tracing.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.export.exported_program import ExportedProgram
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

_Op = torch._ops.OpOverload

_MUTATIONS = {InputKind.BUFFER: OutputKind.BUFFER_MUTATION, InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION}
#: Composite ops need not say that they may give what they take (dropout in eval mode does). These give new memory.
_FRESH = frozenset(
    """linear matmul conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d batch_norm layer_norm group_norm
    instance_norm max_pool1d max_pool2d max_pool3d adaptive_avg_pool2d scaled_dot_product_attention silu""".split()
)
_DROPOUTS = frozenset(("aten::dropout", "aten::feature_dropout", "aten::alpha_dropout", "aten::feature_alpha_dropout"))
#: Ops that may stand in a graph without anybody who reads what they give.
WITHOUT_READERS = _DROPOUTS | {"aten::_assert_tensor_metadata"}
#: What `x.to(dtype)` leaves behind; it held while torch traced.
_CHECK = torch.ops.aten._assert_tensor_metadata.default


@dataclass(frozen=True)
class Functional:
    """An exported program with another graph and signature; everything else is that of `whole`."""

    whole: ExportedProgram
    graph: Graph
    graph_signature: ExportGraphSignature

    def __getattr__(self, name: str) -> Any:
        """What is not the graph's."""
        return getattr(self.whole, name)


def without_writes(exported: ExportedProgram, is_kept: Callable[[_Op], bool]) -> Functional | None:
    """The program with its writes as values, and results for the buffers and inputs that are overwritten.

    Args:
        exported: Has neither branches nor attributes of its graph module.
        is_kept: Whether an op may stand in the graph that comes out.

    Returns:
        None where a write is not plain: to a view, to memory of which a view made before is read behind it, by an op that has
        no form without writing or another type there.
    """
    places = {node: i for i, node in enumerate(exported.graph.nodes)}
    writes: dict[Node, _Op] = {}
    for node in filter(is_write, exported.graph.nodes):
        form = _form(node, is_kept)
        if form is None:
            return None
        writes[node] = form
    state = {**exported.constants, **exported.state_dict}
    roots = _roots(writes, _names(exported, state))
    if roots is None:
        return None
    aliases: dict[Node, list[Node]] = {roots[write]: [] for write in writes}
    for node, root in roots.items():
        if root in aliases:
            aliases[root].append(node)
    if not all(_is_unseen(nodes, writes, places) for nodes in aliases.values()):
        return None
    targets = _targets(exported, state, [root for root in aliases if root.op == "placeholder"])
    return None if targets is None else _rewritten(exported, writes, roots, targets)


def is_write(node: Node) -> bool:
    """Whether a node is a call of an op that overwrites an argument."""
    return isinstance(node.target, _Op) and node.target._schema.is_mutable


@contextmanager
def past_dropouts(exported: ExportedProgram) -> Iterator[None]:
    """Dropout in eval mode gives its argument itself. To torch it is a copy, which matters where one of both is overwritten."""
    writes = any(map(is_write, exported.graph.nodes))
    passed = [node for node in exported.graph.nodes if writes and _is_dropout_in_eval_mode(node)]
    before = [(user, user.args, user.kwargs) for node in passed for user in node.users]
    for node in passed:
        node.replace_all_uses_with(node.args[0])
    try:
        yield
    finally:
        for user, args, kwargs in before:
            user.args, user.kwargs = args, kwargs


def _is_dropout_in_eval_mode(node: torch.fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.name in _DROPOUTS and node.kwargs.get("train", *node.args[2:]) is False


def _form(node: Node, is_kept: Callable[[_Op], bool]) -> _Op | None:
    """The op without writing of a node that writes to its first argument alone."""
    op = node.target
    name = op._schema.name.partition("::")
    packet = getattr(getattr(torch.ops, name[0]), name[2].removesuffix("_"), None) if name[2].endswith("_") else None
    form = getattr(packet, op._overloadname, None) if packet is not None else None
    if form is None or not is_kept(form) or {torch.Tag.nondeterministic_seeded, torch.Tag.inplace_view} & set(op.tags):
        return None
    first, *others = op._schema.arguments
    takes = [(a.name, str(a.type)) for a in op._schema.arguments] == [
        (a.name, str(a.type)) for a in form._schema.arguments
    ]
    is_plain = takes and first.is_write and not any(a.is_write for a in others) and len(op._schema.returns) == 1
    return form if is_plain and _same_type(node, form) else None


def _same_type(node: Node, form: _Op) -> bool:
    """Whether the value has the type and sizes of what is overwritten, to which a write converts."""
    value = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    with value[0][0].fake_mode:
        got = form(*value[0], **value[1])
    want = value[0][0]
    same_sizes = all(statically_known_true(a == b) for a, b in zip(got.shape, want.shape))
    return got.dtype == want.dtype and got.dim() == want.dim() and same_sizes


def _names(exported: ExportedProgram, state: Mapping[str, Any]) -> dict[Node, Node]:
    """The first placeholder of the same tensor, of those of parameters and buffers."""
    tensors = {spec.arg.name: state.get(spec.target) for spec in exported.graph_signature.input_specs}
    first: dict[Any, Node] = {}
    names = {}
    for node in exported.graph.nodes:
        tensor = tensors.get(node.name) if node.op == "placeholder" else None
        if isinstance(tensor, torch.Tensor):
            names[node] = first.setdefault(storage_key(tensor), node)
    return names


def storage_key(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Equal for tensors that are the same view of the same storage."""
    place = (tensor.untyped_storage().data_ptr(), tensor.storage_offset())
    return (*place, tensor.dtype, tuple(tensor.shape), tensor.stride()) if tensor.numel() else (id(tensor),)


def _roots(writes: dict[Node, _Op], names: dict[Node, Node]) -> dict[Node, Node] | None:
    """Whose memory a name, and what a write gives, is: a placeholder's, or of a node that makes new memory.

    None where that is not known for one.
    """
    roots = dict(names)
    for write in writes:
        written = write.args[0]
        root = roots.setdefault(written, written)
        if root.op != "placeholder" and not _is_fresh(root):
            return None
        roots[write] = root
    return roots


def _is_fresh(node: Node) -> bool:
    """Whether a node's results are no part of its arguments' memory."""
    op = node.target
    if not isinstance(op, _Op) or any(r.alias_info is not None for r in op._schema.returns):
        return False
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")
    return not composite or (op.namespace == "aten" and op._schema.name.partition("::")[2] in _FRESH)


def _is_unseen(aliases: list[Node], writes: dict[Node, _Op], places: dict[Node, int]) -> bool:
    """Whether no view of the memory that all of these are is used behind a write that comes after it."""
    when = [places[node] for node in aliases if node in writes]
    for alias in aliases:
        for user in alias.users:
            if user in writes and user.args[0] is alias:
                continue
            following = bisect.bisect_left(when, places[user])
            if following < len(when) and _last_use(alias, user, places) >= when[following]:
                return False
    return True


def _last_use(memory: Node, user: Node, places: dict[Node, int]) -> int:
    """Where `user` uses memory last: it may give a view of it, which others use."""
    last = 0
    open_uses, seen = [(memory, user)], {memory}
    while open_uses:
        memory, user = open_uses.pop()
        last = max(last, places[user])
        reads = user.op == "output" or user.target is _CHECK or (is_write(user) and user.args[0] is not memory)
        if not (reads or user in seen or _is_fresh(user)):
            seen.add(user)
            open_uses += [(user, other) for other in user.users]
    return last


def _targets(
    exported: ExportedProgram, state: Mapping[str, Any], written: list[Node]
) -> dict[Node, tuple[OutputKind, str]] | None:
    """What is overwritten, by its placeholder.

    None where torch has rules of its own for it, or another tensor is of the same memory.
    """
    specs = {spec.arg.name: spec for spec in exported.graph_signature.input_specs}
    views: dict[int, set[Any]] = {}
    for tensor in state.values():
        if isinstance(tensor, torch.Tensor) and tensor.numel():
            views.setdefault(tensor.untyped_storage().data_ptr(), set()).add(storage_key(tensor))
    targets = {}
    for node in written:
        spec = specs[node.name]
        is_buffer = spec.kind == InputKind.BUFFER
        if spec.kind not in _MUTATIONS or (
            is_buffer and len(views.get(state[spec.target].untyped_storage().data_ptr(), ())) > 1
        ):
            return None
        targets[node] = (_MUTATIONS[spec.kind], spec.target if is_buffer else node.name)
    return targets


def _rewritten(
    exported: ExportedProgram,
    writes: dict[Node, _Op],
    roots: dict[Node, Node],
    targets: dict[Node, tuple[OutputKind, str]],
) -> Functional:
    graph = Graph()
    made: dict[Node, Node] = {}
    current: dict[Node, Node] = {}  # of memory that was written: its value

    def value(node: Node) -> Node:
        return current.get(roots.get(node, node)) or made[node]

    for node in exported.graph.nodes:
        if node in writes:
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), value)
            copy = current[roots[node]] = graph.create_node("call_function", writes[node], args, kwargs)
            copy.meta = dict(node.meta)
            copy.name = node.name
        elif node.op == "output":
            results = torch.fx.node.map_arg(tuple(node.args[0]), value)
            graph.output((*(current[root] for root in targets), *results))
        else:
            made[node] = graph.node_copy(node, value)
            made[node].name = node.name  # signatures know nodes by it
    signature = exported.graph_signature
    updates = [OutputSpec(kind, TensorArgument(current[root].name), target) for root, (kind, target) in targets.items()]
    return Functional(exported, graph, ExportGraphSignature(signature.input_specs, [*updates, *signature.output_specs]))
