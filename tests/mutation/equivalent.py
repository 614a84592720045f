# SPDX-License-Identifier: Apache-2.0

"""Mutants that compute what the original does, by name, each with the reason."""

from __future__ import annotations

_ONLY_OF_NODES = "the order of Indices is only read of MaxPool nodes, and here is none"
_ODD_LENGTH = "of an odd number of sizes, every second one without the last, or without the last two, are the same"
_ONLY_A_NAME = "the value of an enumeration that is only compared with itself"
_ONLY_A_FACT = "the name under which one fact is stored, which nothing else uses"
_ONLY_A_TYPE = "an int is made of the product, of integers and below 2^53; dtype is that of an empty one"
_WRITTEN_AS_INT64 = "what comes out is written as int64, and counts the elements of an array that is there"
_ONLY_FOR_SPEED = "the same comes out, by more steps or more memory"
_OTHER_COLUMNS = "joined along another axis, every table has as many columns as an entry, which is one too many"
_ANY_NEGATIVE = "any negative position means the scope itself"
_NO_POSITION = "any negative number means that there is none"
_REMEMBERED = "attribute.type not in _HOLDER_TYPES and len(stored) <= _MAX_REMEMBERED"
_NO_SIZE = "where there are no sizes, any number that is not negative says so"
_NOT_FIRST = "what it reads is made by a node, so it does not stand at position 0"
_LAST_NODE = "it would stand for the last node of the scope, whose own use of the value comes earlier"
_INT64_ANYWAY = "numpy's integers are int64, but for numpy 1 on Windows, where no mutant has run"
_STEPS_OVER = "only the first axis may be symbolic where a maximum is over it, and its size moves no first element"
_NO_EMPTY_CANVAS = "a canvas has sizes that are numbers, and none is 0: a window without an element is refused"
_REMOVED_ANYWAY = "the pool is replaced, and with it the output that it would get"
_NO_NAME = "the inputs of a graph are no names, so none is the value's"
_ONE_ENCODING = "Python's names of encodings may end with an underscore"
_ONLY_THE_ORDER = "the forms of one anchor are tried in the order of these numbers, and none lies between"
_ONLY_FOR_TYPES = "what only the type checker reads"
_NO_AXIS = "only a maximum over one axis has this, and then it is given"
_NEWER_THAN_ALL = "onnx has operator sets up to 30 or so, and takes the newest for any number above"
_ONLY_A_LIMIT = "the most nodes that a search visits or bytes that are read at once; none of the limits is exact"
_OTHER_SPELLING = "at opset 15 the older spelling of the body computes the same"

_PRIORITIES = {
    "adaptive_window_tables": 10,
    "aten_adaptive_max_pool_grad": 10,
    "aten_max_pool_grad": 20,
    "aten_value_selecting_grad": 30,
    "decomposed_forward": 20,
    "implicit_gradient": 10,
    "max_over_axis": 30,
    "onnx_max_unpool": 10,
    "ort_max_pool_grad": 10,
    "overwrite_scatter": 40,
    "tensorflow_max_pool_grad": 20,
    "tensorflow_max_pool_grad_with_argmax": 30,
    "tie_masks": 10,
    "torch_global_max": 50,
    "torch_scatter_add": 60,
    "user_symbolic_grad": 40,
}
_STATIC_FIRST = ("Add", "Cast", "CastLike", "Mod", "Mul", "Neg", "Relu", "Sub")
"""Operators whose inferred shapes are taken before the rules derive the same."""

_ROWS: dict[str, list[tuple[str, str, str]]] = {
    "compiler.analysis.evaluation": [("'Evaluation'", "'Evaluation_'", _ONLY_FOR_TYPES)],
    "compiler.analysis.provenance.Numbering": [
        ("'tensor'", "'tensor_'", _ONLY_A_NAME),
        ("'plane'", "'plane_'", _ONLY_A_NAME),
        ("'axis'", "'axis_'", _ONLY_A_NAME),
    ],
    "compiler.families.shared.checks._is_computed_by.inputs": [
        (
            "maker.scope is node.scope and maker.position > node.position",
            "maker.position > node.position",
            _ONLY_FOR_SPEED,
        ),
        ("maker.position > node.position", "maker.position >= node.position", _ONLY_FOR_SPEED),
    ],
    "compiler.families.shared.emission.canvas_extents": [("0", "1", _NO_EMPTY_CANVAS)],
    "compiler.families.gradient.Form": [("100", "101", _ONLY_THE_ORDER)],
    "compiler.families.max_pool.emit._from_axis": [
        ("1", "2", _STEPS_OVER),
        ("np.arange(math.prod(sizes), dtype=np.int64)", "np.arange(math.prod(sizes))", _WRITTEN_AS_INT64),
    ],
    "compiler.families.max_pool.emit._on_canvas": [
        ("np.prod(canvas[axis + 1:], dtype=np.int64)", "np.prod(canvas[axis + 1:])", _ONLY_A_TYPE),
        ("np.prod(sizes[axis:], dtype=np.int64)", "np.prod(sizes[axis:])", _ONLY_A_TYPE),
    ],
    "compiler.families.max_pool.forward_pools.missing_outputs": [
        (
            "pool.output(1) is None and (not isinstance(site.forward, LoweredOp))",
            "pool.output(1) is None",
            _REMOVED_ANYWAY,
        )
    ],
    "compiler.families.max_pool.gradient.MaxPoolGradient": [("0", "1", _NO_AXIS)],
    "compiler.families.max_pool.matching.axis_maximum._reductions": [
        ("use.scope is not maximum.node.scope or use.position < 0", "use.scope is not maximum.node.scope", _LAST_NODE)
    ],
    "compiler.families.max_pool.matching.scatter._counts_rows": [
        ("np.indices(sizes[:columns], sparse=True)", "np.indices(sizes[:columns])", _ONLY_FOR_SPEED),
        ("True", "False", _ONLY_FOR_SPEED),
    ],
    "compiler.families.max_pool.matching.scatter._names_own_rows": [
        ("if integer(node, 'axis') not in (-1, depth)", "if False", _OTHER_COLUMNS)
    ],
    "compiler.families.max_pool.matching.scatter.find_result": [
        ("break", "continue", _ONLY_FOR_SPEED),
        ("break", "continue #2", _ONLY_FOR_SPEED),
    ],
    "compiler.families.max_pool.matching.window_tables._first_window": [
        ("np.arange(extent, dtype=np.int64)", "np.arange(extent)", _INT64_ANYWAY)
    ],
    "compiler.families.max_pool.matching.window_tables._span": [
        ("np.arange(count, dtype=np.int64)", "np.arange(count)", _INT64_ANYWAY),
        ("np.arange((ends - starts).max(), dtype=np.int64)", "np.arange((ends - starts).max())", _INT64_ANYWAY),
    ],
    "compiler.families.max_pool.matching.window_tables._taps": [
        ("np.arange(count, dtype=np.int64)", "np.arange(count)", _INT64_ANYWAY),
        ("np.arange(window.kernel, dtype=np.int64)", "np.arange(window.kernel)", _INT64_ANYWAY),
    ],
    "compiler.families.max_pool.matching.window_tables.adaptive_counts": [
        (
            "np.array_equal(first, _first_window(sizes, counts)) "
            "and same_windows(table, adaptive_table(sizes, counts))",
            "same_windows(table, adaptive_table(sizes, counts))",
            _ONLY_FOR_SPEED,
        )
    ],
    "compiler.lowering.select._select": [
        (
            "site.op if is_first else family_of(site.gradient).select(site.gradient, target, operator)",
            "family_of(site.gradient).select(site.gradient, target, operator)",
            _ONLY_FOR_SPEED,
        )
    ],
    "compiler.lowering.plan.read_plan": [("'utf-8'", "'utf-8_'", _ONE_ENCODING)],
    "dialect.op": [("'T'", "'T_'", _ONLY_A_NAME), ("'I'", "'I_'", _ONLY_A_NAME)],
    "dialect.op.Maximum": [
        ("'filled'", "'filled_'", _ONLY_A_NAME),
        ("'gathered'", "'gathered_'", _ONLY_A_NAME),
        ("'selected'", "'selected_'", _ONLY_A_NAME),
        ("'whole'", "'whole_'", _ONLY_A_NAME),
    ],
    "dialect.max_pool_bodies": [("15", "16", _OTHER_SPELLING)],
    "model.facts.facts": [("'T'", "'T_'", _ONLY_FOR_TYPES)],
    "model.facts.facts.Facts._passed": [
        (
            "not isinstance(proto, onnx.FunctionProto) or value.name not in proto.input",
            "value.name not in proto.input",
            _NO_NAME,
        )
    ],
    "model.facts.facts.Facts.constant": [("'constant'", "'constant_'", _ONLY_A_FACT)],
    "model.facts.facts.Facts.element_type": [("'element_type'", "'element_type_'", _ONLY_A_FACT)],
    "model.facts.facts.Facts.integers": [("'integers'", "'integers_'", _ONLY_A_FACT)],
    "model.facts.facts.Facts.is_zero": [("'zero'", "'zero_'", _ONLY_A_FACT)],
    "model.facts.facts.Facts.table": [("'table'", "'table_'", _ONLY_A_FACT)],
    "model.facts.node_inference.Hiding.__init__": [
        (
            "(… for node in with_inner(function.node) if refers(node))",
            "(… for node in with_inner(function.node))",
            _ONLY_FOR_SPEED,
        ),
        ("if referring", "if True", _ONLY_FOR_SPEED),
    ],
    "model.facts.memo": [("'T'", "'T_'", _ONLY_FOR_TYPES)],
    "model.facts.memo.Memo.once": [("if len(self._reads) > before", "if True", _ONLY_FOR_SPEED)],
    "model.facts.node_inference": [("1", "2 #2", _ONLY_A_LIMIT), ("10", "11", _ONLY_A_LIMIT)],
    "model.gate.gate": [("256", "257", _ONLY_FOR_SPEED)],
    "model.gate.gate.Gate._check_attribute": [
        (_REMEMBERED, "attribute.type not in _HOLDER_TYPES", _ONLY_FOR_SPEED),
        (f"if {_REMEMBERED}", "if False", _ONLY_FOR_SPEED),
        ("len(stored) <= _MAX_REMEMBERED", "len(stored) < _MAX_REMEMBERED", _ONLY_FOR_SPEED),
    ],
    "model.gate.gate.Gate._check_function": [("1", "2", _ANY_NEGATIVE)],
    "model.gate.gate.Gate._check_graph": [
        ("1", "2", _ANY_NEGATIVE),
        ("if len({*scope.initializers, *sparse}) < len(graph.initializer) + len(sparse)", "if True", _ONLY_FOR_SPEED),
        (
            "len({*scope.initializers, *sparse}) < len(graph.initializer) + len(sparse)",
            "len({*scope.initializers, *sparse}) <= len(graph.initializer) + len(sparse)",
            _ONLY_FOR_SPEED,
        ),
    ],
    "model.gate.gate.Gate.on_initializer": [("1", "2", _ANY_NEGATIVE)],
    "model.gate.gate.Gate.on_scope_closed": [("if unsorted", "if True", _ONLY_FOR_SPEED)],
    "model.gate.gate.Gate.visit_attributes": [
        (
            "b'' if attribute.type in _HOLDER_TYPES else attribute.SerializeToString()",
            "attribute.SerializeToString()",
            _ONLY_FOR_SPEED,
        ),
        ("if (name := self._valid_attributes.get(stored)) is None", "if True", _ONLY_FOR_SPEED),
    ],
    "model.gate.gate._place": [("1", "2", _ANY_NEGATIVE)],
    "model.gate.gate._require_at": [("1", "2", _ANY_NEGATIVE)],
    "model.ir.attributes": [("'utf-8'", "'utf-8_'", _ONE_ENCODING), ("1", "2", _NEWER_THAN_ALL)],
    "model.ir.index.ModelIndex._add_subgraph": [("1", "2", _NO_POSITION)],
    "model.ir.index.ModelIndex._enter_values": [("1", "2", _NO_POSITION)],
    "model.ir.scopes": [("64", "65", _ONLY_A_LIMIT)],
    "model.ir.scopes.Scope.resolve": [("if known is not None", "if False", _ONLY_FOR_SPEED)],
    "model.ir.scopes.Value.only_reader": [
        ("uses[0].position < 0", "uses[0].position <= 0", _NOT_FIRST),
        ("0", "1 #3", _NOT_FIRST),
    ],
    "model.ir.scopes.Value.upstream": [("break", "continue", _ONLY_FOR_SPEED)],
    "model.ir.tensors.dims_flaw": [("0", "1", _NO_SIZE)],
    "model.ir.scopes.UseLists._links": [("1", "2", _NO_POSITION)],
    "model.ir.scopes.UseLists.of": [("1", "2", _NO_POSITION)],
    "model.windows.factorisations": [("1", "2 #3", _ONLY_FOR_SPEED)],
    "model.windows.PoolAttributes.of": [("0", "1", _ONLY_OF_NODES)],
    "patterns.decomposed_forward._pooled": [("1", "2", _ODD_LENGTH)],
    **{f"patterns.{form}.match": [(f"{at}", f"{at + 1}", _ONLY_THE_ORDER)] for form, at in _PRIORITIES.items()},
    "patterns.tensorflow_max_pool_grad_with_argmax": [
        ("'batch'", "'batch_'", _ONLY_A_NAME),
        ("'channel'", "'channel_'", _ONLY_A_NAME),
        ("'position'", "'position_'", _ONLY_A_NAME),
    ],
    "model.facts.shape_rules": [(f"'{op}'", f"'{op}_'", _ONLY_FOR_SPEED) for op in _STATIC_FIRST],
}
"""Of each function, or of a module outside of functions: what is replaced, by what, and why the result is the same."""

EQUIVALENT = {f"{function}: {before} → {after}" for function, rows in _ROWS.items() for before, after, _ in rows}
"""The names of these mutants."""
