// SPDX-License-Identifier: Apache-2.0
// Nested arguments and results. A structure is compiled into a tree of nodes once; a call walks it,
// checks every container's exact type and size, and puts the tensors into their fixed positions.
#include <string.h>

#include "call_path.h"

static const char* const kNodeNames[] = {"tensor",     "const",     "tuple",  "list",  "dict",
                                         "namedtuple", "dataclass", "custom", "extent"};

static int parseChildren(PyObject* children, int32_t leaves, sl_node* node) {
  if (!PyTuple_Check(children)) {
    PyErr_SetString(PyExc_TypeError, "children of a node must be a tuple");
    return -1;
  }
  Py_ssize_t count = PyTuple_Size(children);
  node->children = PyMem_Calloc(count ? (size_t)count : 1, sizeof(sl_node));
  if (!node->children) {
    PyErr_NoMemory();
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    ++node->count;
    if (slNodeParse(PyTuple_GetItem(children, i), leaves, &node->children[i])) {
      return -1;
    }
  }
  return 0;
}

static PyObject* owned(PyObject* object) {
  Py_XINCREF(object);
  return object;
}

static int parseKind(const char* text, sl_node_kind* kind) {
  for (int i = 0; i <= SL_NODE_EXTENT; ++i) {
    if (strcmp(text, kNodeNames[i]) == 0) {
      *kind = (sl_node_kind)i;
      return 0;
    }
  }
  PyErr_Format(PyExc_ValueError, "unknown kind of node '%s'", text);
  return -1;
}

/// Copies the steps ("c", 3), ("s", 0), ("*", 0), ... of an expression; `index` counts them.
static int parseSteps(PyObject* pairs, sl_node* node) {
  if (!PyTuple_Check(pairs) || PyTuple_Size(pairs) == 0) {
    PyErr_SetString(PyExc_TypeError, "an extent must be a tuple of steps");
    return -1;
  }
  node->index = (int32_t)PyTuple_Size(pairs);
  node->steps = PyMem_Calloc((size_t)node->index, sizeof(sl_expr_step));
  if (!node->steps) {
    PyErr_NoMemory();
    return -1;
  }
  int depth = 0;
  for (int32_t i = 0; i < node->index; ++i) {
    int op = 0;
    long long value = 0;
    if (!PyArg_ParseTuple(PyTuple_GetItem(pairs, i), "CL", &op, &value)) {
      return -1;
    }
    const int operand = op == 'c' || op == 's';
    depth += operand ? 1 : -1;
    if (depth < 1 || (!operand && !strchr("+*/%M", op))) {
      PyErr_Format(PyExc_ValueError, "step %d of extent '%U' is malformed", (int)i, node->name);
      return -1;
    }
    node->steps[i] = (sl_expr_step){op, value};
  }
  if (depth != 1) {
    PyErr_Format(PyExc_ValueError, "extent '%U' leaves %d values but must leave 1", node->name,
                 depth);
    return -1;
  }
  return 0;
}

int slNodeParse(PyObject* spec, int32_t leaves, sl_node* node) {
  static const Py_ssize_t sizes[] = {3, 3, 3, 3, 5, 4, 5, 7, 3};
  if (!PyTuple_Check(spec) || PyTuple_Size(spec) < 3 ||
      !PyUnicode_Check(PyTuple_GetItem(spec, 0)) || !PyUnicode_Check(PyTuple_GetItem(spec, 1))) {
    PyErr_SetString(PyExc_TypeError, "a node must be a tuple (kind, name, ...)");
    return -1;
  }
  const char* kind = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(spec, 0), NULL);
  if (!kind || parseKind(kind, &node->kind)) {
    return -1;
  }
  if (PyTuple_Size(spec) != sizes[node->kind]) {
    PyErr_Format(PyExc_ValueError, "a %s node has %zd fields but must have %zd", kind,
                 PyTuple_Size(spec), sizes[node->kind]);
    return -1;
  }
  node->name = owned(PyTuple_GetItem(spec, 1));
  PyObject* a = PyTuple_GetItem(spec, 2);
  switch (node->kind) {
    case SL_NODE_TENSOR: {
      long index = PyLong_AsLong(a);
      if (PyErr_Occurred()) {
        return -1;
      }
      if (index < 0 || index >= leaves) {
        PyErr_Format(PyExc_ValueError, "tensor '%U' has position %ld but there are %d", node->name,
                     index, (int)leaves);
        return -1;
      }
      node->index = (int32_t)index;
      return 0;
    }
    case SL_NODE_CONST:
      node->value = owned(a);
      return 0;
    case SL_NODE_EXTENT:
      return parseSteps(a, node);
    case SL_NODE_TUPLE:
    case SL_NODE_LIST:
      return parseChildren(a, leaves, node);
    case SL_NODE_NAMEDTUPLE:
      node->type = owned(a);
      return parseChildren(PyTuple_GetItem(spec, 3), leaves, node);
    case SL_NODE_DICT:
    case SL_NODE_DATACLASS:
      node->type = owned(a);
      node->keys = owned(PyTuple_GetItem(spec, 3));
      if (parseChildren(PyTuple_GetItem(spec, 4), leaves, node)) {
        return -1;
      }
      if (!PyTuple_Check(node->keys) || PyTuple_Size(node->keys) != node->count) {
        PyErr_Format(PyExc_ValueError, "'%U' has %d children but not as many keys", node->name,
                     (int)node->count);
        return -1;
      }
      return 0;
    case SL_NODE_CUSTOM:
      node->type = owned(a);
      node->flatten = owned(PyTuple_GetItem(spec, 3));
      node->unflatten = owned(PyTuple_GetItem(spec, 4));
      node->context = owned(PyTuple_GetItem(spec, 5));
      return parseChildren(PyTuple_GetItem(spec, 6), leaves, node);
  }
  return -1;
}

void slNodeClear(sl_node* node) {
  PyMem_Free(node->steps);
  node->steps = NULL;
  for (int32_t i = 0; i < node->count; ++i) {
    slNodeClear(&node->children[i]);
  }
  PyMem_Free(node->children);
  node->children = NULL;
  node->count = 0;
  Py_CLEAR(node->name);
  Py_CLEAR(node->type);
  Py_CLEAR(node->keys);
  Py_CLEAR(node->value);
  Py_CLEAR(node->flatten);
  Py_CLEAR(node->unflatten);
  Py_CLEAR(node->context);
}

int slNodeTraverse(const sl_node* node, visitproc visit, void* arg) {
  for (int32_t i = 0; i < node->count; ++i) {
    int stop = slNodeTraverse(&node->children[i], visit, arg);
    if (stop) {
      return stop;
    }
  }
  Py_VISIT(node->type);
  Py_VISIT(node->keys);
  Py_VISIT(node->value);
  Py_VISIT(node->flatten);
  Py_VISIT(node->unflatten);
  Py_VISIT(node->context);
  return 0;
}

int slSameConstant(PyObject* compiled, PyObject* given) {
  if (compiled == given) {
    return 1;
  }
  if (Py_TYPE(compiled) != Py_TYPE(given)) {
    return 0;
  }
  if (PyFloat_CheckExact(compiled)) {  // -0.0 is not 0.0, and a NaN is itself
    double a = PyFloat_AsDouble(compiled);
    double b = PyFloat_AsDouble(given);
    return memcmp(&a, &b, sizeof(a)) == 0;
  }
  return PyObject_RichCompareBool(compiled, given, Py_EQ);
}

static PyObject* typeName(PyObject* object) {
  return PyObject_GetAttrString((PyObject*)Py_TYPE(object), "__name__");
}

static int wrongContainer(const sl_node* node, PyObject* object, const char* expected) {
  PyObject* given = typeName(object);
  PyObject* wanted =
      node->type ? PyObject_GetAttrString(node->type, "__name__") : PyUnicode_FromString(expected);
  if (given && wanted) {
    PyErr_Format(slGuardTypeError, "'%U' must be a %U as compiled but is a %U", node->name, wanted,
                 given);
  }
  Py_XDECREF(given);
  Py_XDECREF(wanted);
  return -1;
}

static int wrongCount(const sl_node* node, Py_ssize_t given) {
  PyErr_Format(slGuardError, "'%U' must have %d entries as compiled but has %zd", node->name,
               (int)node->count, given);
  return -1;
}

static int flattenConst(const sl_node* node, PyObject* object) {
  int same = slSameConstant(node->value, object);
  if (same < 0) {
    return -1;
  }
  if (!same) {
    if (Py_TYPE(node->value) == Py_TYPE(object)) {
      PyErr_Format(slGuardError,
                   "'%U' was compiled for the value %R but is %R: compile once for each value",
                   node->name, node->value, object);
    } else {
      PyObject* given = typeName(object);
      if (given) {
        PyErr_Format(slGuardTypeError,
                     "'%U' was compiled for the value %R but is a %U: compile once for each value",
                     node->name, node->value, given);
        Py_DECREF(given);
      }
    }
    return -1;
  }
  return 0;
}

static int flattenDict(const sl_node* node, PyObject* object, int optional, PyObject** leaves) {
  if ((PyObject*)Py_TYPE(object) != node->type) {
    return wrongContainer(node, object, "dict");
  }
  for (int32_t i = 0; i < node->count; ++i) {
    PyObject* key = PyTuple_GetItem(node->keys, i);
    PyObject* child = PyDict_GetItemWithError(object, key);
    if (!child) {
      if (!PyErr_Occurred()) {
        PyErr_Format(slGuardError, "'%U' has no key %R, which was compiled", node->name, key);
      }
      return -1;
    }
    Py_INCREF(child);
    int failed = slNodeFlatten(&node->children[i], child, optional, leaves);
    Py_DECREF(child);
    if (failed) {
      return -1;
    }
  }
  return PyDict_Size(object) == node->count ? 0 : wrongCount(node, PyDict_Size(object));
}

/// Children of `sequence` (a tuple or list) against the node's children.
static int flattenSequence(const sl_node* node, PyObject* sequence, int optional,
                           PyObject** leaves) {
  int is_list = PyList_Check(sequence);
  Py_ssize_t count = is_list ? PyList_Size(sequence) : PyTuple_Size(sequence);
  if (count != node->count) {
    return wrongCount(node, count);
  }
  for (int32_t i = 0; i < node->count; ++i) {
    PyObject* child = is_list ? PyList_GetItem(sequence, i) : PyTuple_GetItem(sequence, i);
    if (!child) {
      return -1;
    }
    Py_INCREF(child);
    int failed = slNodeFlatten(&node->children[i], child, optional, leaves);
    Py_DECREF(child);
    if (failed) {
      return -1;
    }
  }
  return 0;
}

static int flattenCustom(const sl_node* node, PyObject* object, int optional, PyObject** leaves) {
  PyObject* pair = PyObject_CallFunctionObjArgs(node->flatten, object, NULL);
  if (!pair) {
    return -1;
  }
  int result = -1;
  PyObject* children = NULL;
  if (!PyTuple_Check(pair) || PyTuple_Size(pair) < 2) {
    PyErr_Format(slGuardTypeError, "flattening '%U' must give (children, context) but gave %R",
                 node->name, pair);
    goto done;
  }
  int same = PyObject_RichCompareBool(PyTuple_GetItem(pair, 1), node->context, Py_EQ);
  if (same < 0) {
    goto done;
  }
  if (!same) {
    PyErr_Format(slGuardError, "'%U' was compiled with the structure %R but has %R", node->name,
                 node->context, PyTuple_GetItem(pair, 1));
    goto done;
  }
  children = PySequence_Tuple(PyTuple_GetItem(pair, 0));
  if (children) {
    result = flattenSequence(node, children, optional, leaves);
  }
done:
  Py_XDECREF(children);
  Py_DECREF(pair);
  return result;
}

static int flattenDataclass(const sl_node* node, PyObject* object, int optional,
                            PyObject** leaves) {
  for (int32_t i = 0; i < node->count; ++i) {
    PyObject* child = PyObject_GetAttr(object, PyTuple_GetItem(node->keys, i));
    if (!child) {
      return -1;
    }
    int failed = slNodeFlatten(&node->children[i], child, optional, leaves);
    Py_DECREF(child);
    if (failed) {
      return -1;
    }
  }
  return 0;
}

int slNodeFlatten(const sl_node* node, PyObject* object, int optional, PyObject** leaves) {
  switch (node->kind) {
    case SL_NODE_TENSOR:
      if (!(optional && object == Py_None)) {
        PyObject* before = leaves[node->index];
        Py_INCREF(object);
        leaves[node->index] = object;
        Py_XDECREF(before);
      }
      return 0;
    case SL_NODE_CONST:
      return flattenConst(node, object);
    case SL_NODE_EXTENT:
      return object == Py_None || PyLong_CheckExact(object) ? 0
                                                            : wrongContainer(node, object, "int");
    case SL_NODE_TUPLE:
      if (!PyTuple_CheckExact(object)) {
        return wrongContainer(node, object, "tuple");
      }
      return flattenSequence(node, object, optional, leaves);
    case SL_NODE_LIST:
      if (!PyList_CheckExact(object)) {
        return wrongContainer(node, object, "list");
      }
      return flattenSequence(node, object, optional, leaves);
    case SL_NODE_DICT:
      return flattenDict(node, object, optional, leaves);
    case SL_NODE_NAMEDTUPLE:
      if ((PyObject*)Py_TYPE(object) != node->type) {
        return wrongContainer(node, object, "");
      }
      return flattenSequence(node, object, optional, leaves);
    case SL_NODE_DATACLASS:
      if ((PyObject*)Py_TYPE(object) != node->type) {
        return wrongContainer(node, object, "");
      }
      return flattenDataclass(node, object, optional, leaves);
    case SL_NODE_CUSTOM:  // of any type where it says None: `flatten` looks at the object
      if (node->type != Py_None && (PyObject*)Py_TYPE(object) != node->type) {
        return wrongContainer(node, object, "");
      }
      return flattenCustom(node, object, optional, leaves);
  }
  return -1;
}

/// A new tuple (or list) of the node's built children.
static PyObject* buildChildren(const sl_node* node, PyObject** leaves, const int64_t* extents,
                               int as_list) {
  PyObject* result = as_list ? PyList_New(node->count) : PyTuple_New(node->count);
  for (int32_t i = 0; result && i < node->count; ++i) {
    PyObject* child = slNodeBuild(&node->children[i], leaves, extents);
    if (!child) {
      Py_CLEAR(result);
    } else if (as_list) {
      PyList_SetItem(result, i, child);
    } else {
      PyTuple_SetItem(result, i, child);
    }
  }
  return result;
}

static PyObject* buildDict(const sl_node* node, PyObject** leaves, const int64_t* extents) {
  PyObject* result =
      node->kind == SL_NODE_DATACLASS ? PyDict_New() : PyObject_CallObject(node->type, NULL);
  for (int32_t i = 0; result && i < node->count; ++i) {
    PyObject* child = slNodeBuild(&node->children[i], leaves, extents);
    if (!child || PyObject_SetItem(result, PyTuple_GetItem(node->keys, i), child)) {
      Py_CLEAR(result);
    }
    Py_XDECREF(child);
  }
  return result;
}

PyObject* slNodeBuild(const sl_node* node, PyObject** leaves, const int64_t* extents) {
  switch (node->kind) {
    case SL_NODE_TENSOR:
      return owned(leaves[node->index]);
    case SL_NODE_CONST:
      return owned(node->value);
    case SL_NODE_EXTENT:
      return PyLong_FromLongLong(sl_expr_value(&(sl_expr){node->steps, node->index}, extents));
    case SL_NODE_TUPLE:
      return buildChildren(node, leaves, extents, 0);
    case SL_NODE_LIST:
      return buildChildren(node, leaves, extents, 1);
    case SL_NODE_DICT:
      return buildDict(node, leaves, extents);
    case SL_NODE_NAMEDTUPLE: {
      PyObject* children = buildChildren(node, leaves, extents, 0);
      PyObject* result = children ? PyObject_CallObject(node->type, children) : NULL;
      Py_XDECREF(children);
      return result;
    }
    case SL_NODE_DATACLASS: {
      PyObject* fields = buildDict(node, leaves, extents);
      PyObject* none = fields ? PyTuple_New(0) : NULL;
      PyObject* result = none ? PyObject_Call(node->type, none, fields) : NULL;
      Py_XDECREF(fields);
      Py_XDECREF(none);
      return result;
    }
    case SL_NODE_CUSTOM: {
      PyObject* children = buildChildren(node, leaves, extents, 1);
      PyObject* result =
          children ? PyObject_CallFunctionObjArgs(node->unflatten, children, node->context, NULL)
                   : NULL;
      Py_XDECREF(children);
      return result;
    }
  }
  return NULL;
}
