"""Groups of tensors that must share scale and zero point: union-find over the output rules of operators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ptq.core.opspec import FixedQParams, OutputRule, Role
from ptq.core.target import Target
from ptq.core.union_find import UnionFind
from ptq.model.node import (
    Node,
    Value,
    get_name,
    get_node_name,
    is_constant,
    list_consumers,
)
from ptq.solver.partition.eligibility import PrecisionAssignment
from ptq.solver.partition.node_precision import QuantizedNode
from ptq.solver.scales.clamp_bounds import find_clamp_bounds


@dataclass(frozen=True, eq=False)
class ScaleGroup:
    """Tensors with one scale and zero point.

    Attributes:
        tensors: Names of all tensors of the group, in graph order.
        observed_tensors: Names of the tensors whose statistics set the range.
        fixed_qparams: The operator whose specification prescribes the parameters, and the parameters; None if
            no specification does.
        shared_via: For each tensor that shares the scale of another: that tensor and the node between, in words.
    """

    tensors: tuple[str, ...]
    observed_tensors: tuple[str, ...]
    fixed_qparams: tuple[str, FixedQParams] | None
    shared_via: dict[str, str]


@dataclass
class ScaleGroups:
    """The union-find structure over tensor names.

    Attributes:
        values: The tensors, by name.
        requantized_inputs: Inputs, by (node, position), that must have the output's parameters but cannot share
            them: they are requantized before that node.
    """

    values: dict[str, Value] = field(default_factory=dict)
    requantized_inputs: list[tuple[str, int]] = field(default_factory=list)
    _ties: UnionFind[str] = field(default_factory=UnionFind)
    _members: dict[str, list[str]] = field(default_factory=dict)
    _observed: set[str] = field(default_factory=set)
    _fixed: dict[str, tuple[str, FixedQParams]] = field(default_factory=dict)
    _via: dict[str, str] = field(default_factory=dict)

    def add(self, value: Value) -> str:
        """Add a tensor as a group of its own."""
        name = get_name(value)
        self.values.setdefault(name, value)
        if name not in self._ties:
            self._ties.add(name)
            self._members[name] = [name]
        return name

    def find_root(self, name: str) -> str:
        """The representative of the tensor's group."""
        return self._ties.find_root(name)

    def observe(self, name: str) -> None:
        """Let the tensor's statistics set the range of its group."""
        self._observed.add(name)

    def observe_instead(self, name: str, replaced: str) -> None:
        """Let the tensor's statistics set the range, and no longer those of the replaced one."""
        self._observed.discard(replaced)
        self._observed.add(name)

    def prescribe(self, name: str, op: str, params: FixedQParams) -> None:
        """Give the tensor's group the parameters that LiteRT's specification has for an operator."""
        self._fixed[name] = op, params

    def union(self, leader: str, follower: str, via: str) -> None:
        """Let ``follower`` share the parameters of ``leader``, because of the node ``via``."""
        self._via.setdefault(follower, f"{leader}, through {via}")
        old_root, root = self.find_root(follower), self.find_root(leader)
        if old_root != root:
            self._ties.union(root, old_root)
            self._members[root] += self._members.pop(old_root)

    def members_of(self, name: str) -> list[str]:
        """The tensors of the tensor's group."""
        return self._members[self.find_root(name)]

    def fixed_qparams_of(self, name: str) -> FixedQParams | None:
        """The parameters that a specification prescribes for the tensor's group."""
        root = self.find_root(name)
        found = [f for n, (_, f) in self._fixed.items() if self.find_root(n) == root]
        return found[0] if found else None

    def observed_tensors(self) -> Iterator[str]:
        """The tensors whose statistics are needed."""
        for group in self.to_groups():
            if group.fixed_qparams is None:
                yield from (n for n in group.observed_tensors if self.values[n].const_value is None)

    def to_groups(self) -> Iterator[ScaleGroup]:
        """The groups, in the order of their first tensor."""
        for names in self._ties.list_groups():
            fixed = [self._fixed[n] for n in names if n in self._fixed]
            yield ScaleGroup(
                tensors=tuple(names),
                observed_tensors=tuple(n for n in names if n in self._observed),
                fixed_qparams=fixed[0] if fixed else None,
                shared_via={n: self._via[n] for n in names if n in self._via},
            )


def find_scale_groups(assignment: PrecisionAssignment, target: Target) -> ScaleGroups:
    """Group the activations of all nodes that will be quantized."""
    groups = ScaleGroups()
    for quantized in assignment.quantized_nodes.values():
        for value in quantized.inputs_with_role(Role.ACTIVATION):
            if get_name(value) not in groups.values:
                groups.observe(groups.add(value))
        _add_outputs(groups, quantized, target, assignment)
    for quantized in assignment.quantized_nodes.values():
        if target.output_rule(quantized.spec) is OutputRule.ONE_GROUP:
            _share_input_scales(groups, quantized, target, assignment)
    return groups


def _add_outputs(
    groups: ScaleGroups, quantized: QuantizedNode, target: Target, assignment: PrecisionAssignment
) -> None:
    rule = target.output_rule(quantized.spec)
    node = quantized.node
    assert node.name
    if rule is OutputRule.NONE:
        return
    first = get_name(quantized.inputs_with_role(Role.ACTIVATION)[0])
    for value in node.outputs:
        if get_name(value) in assignment.float_outputs:
            continue
        name = groups.add(value)
        if node.name in assignment.fused_activations or _is_calibrated_backward(quantized, target):
            # the producer requantizes directly to the output of the activation
            groups.observe_instead(name, first)
            groups.union(name, first, node.name)
        elif isinstance(rule, FixedQParams):
            groups.prescribe(name, quantized.spec.op, rule)
        elif rule is OutputRule.SAME_AS_INPUT:
            groups.union(first, name, node.name)
        elif rule is OutputRule.OBSERVED:
            groups.observe(name)


def _is_calibrated_backward(quantized: QuantizedNode, target: Target) -> bool:
    """Whether the input takes the output's range: the target wants it, and no other node reads the input."""
    first = quantized.inputs_with_role(Role.ACTIVATION)[0]
    return (
        quantized.spec.op in target.backward_calibration
        and list_consumers(first) == [quantized.node]
        and not first.is_graph_output()
        and not first.is_graph_input()
    )


def _share_input_scales(
    groups: ScaleGroups, quantized: QuantizedNode, target: Target, assignment: PrecisionAssignment
) -> None:
    """Let inputs share the output's scale, for Concat and similar operators.

    Where LiteRT's specification holds, all inputs share it. Elsewhere only inputs that no other node reads do: they
    save a second rounding, while an input with other readers would lose its own resolution. Inputs with different
    fused bounds do not share, since an activation could not be folded into a range beyond its bounds.
    """
    node = quantized.node
    assert node.name
    output = get_name(node.outputs[0])
    names = [get_name(value) for value in quantized.inputs_with_role(Role.ACTIVATION)]
    if target.follows_litert_spec:
        sharing = _list_shareable_inputs(groups, quantized)
        activations = [o for o in quantized.operands if o.role is Role.ACTIVATION]
        groups.requantized_inputs += [
            (node.name, o.position) for o in activations if get_name(o.value) not in sharing
        ]
    else:
        sharing = [name for name in names if _is_read_only_by(groups, name, node, assignment)]
        bounds = {name: _list_fused_bounds(groups, name, assignment) for name in sharing}
        if len(set(bounds.values())) > 1:
            sharing = [name for name in sharing if not bounds[name]]
    if len(sharing) < len(names):
        groups.observe(output)
    for name in sharing:
        groups.union(output, name, node.name)


def _list_shareable_inputs(groups: ScaleGroups, quantized: QuantizedNode) -> list[str]:
    """The inputs that can take the output's parameters.

    Inputs with prescribed parameters cannot, unless all have the same ones. A constant with several readers cannot
    either: it would put unrelated tensors into one group.
    """
    values = quantized.inputs_with_role(Role.ACTIVATION)
    prescribed = {groups.fixed_qparams_of(get_name(value)) for value in values}
    return [
        get_name(value)
        for value in values
        if (len(prescribed) == 1 or groups.fixed_qparams_of(get_name(value)) is None)
        and (not is_constant(value) or list_consumers(value) == [quantized.node])
    ]


def _is_read_only_by(
    groups: ScaleGroups, name: str, node: Node, assignment: PrecisionAssignment
) -> bool:
    """Whether every reader of the tensor's group is the node, or writes into the group itself."""
    values = [groups.values[member] for member in groups.members_of(name)]
    return all(
        not value.is_graph_output()
        and all(
            reader is node or _has_output_in_group(groups, name, reader, assignment)
            for reader in list_consumers(value)
        )
        for value in values
    )


def _has_output_in_group(
    groups: ScaleGroups, name: str, reader: Node, assignment: PrecisionAssignment
) -> bool:
    """Whether the reader is a folded activation or data movement whose output is in the tensor's group."""
    quantized = assignment.quantized_nodes.get(get_node_name(reader))
    if quantized is None or not (
        reader.name in assignment.fused_activations
        or quantized.spec.output_rule is OutputRule.SAME_AS_INPUT
    ):
        return False
    return groups.find_root(get_name(reader.outputs[0])) == groups.find_root(name)


def _list_fused_bounds(
    groups: ScaleGroups, name: str, assignment: PrecisionAssignment
) -> frozenset[tuple[float, float]]:
    """The bounds of the fused activations that write tensors of the group."""
    producers = [groups.values[member].producer() for member in groups.members_of(name)]
    writers = [get_node_name(node) for node in producers if node is not None]
    return frozenset(
        find_clamp_bounds(assignment.quantized_nodes[writer])
        for writer in writers
        if writer in assignment.fused_activations
    )
