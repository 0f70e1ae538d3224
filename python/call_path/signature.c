// SPDX-License-Identifier: Apache-2.0
// Binds the arguments of a call to the parameters of the compiled function, in the way Python
// itself would.
#include "call_path.h"

/// True when every leaf of the default is a constant that equals what was compiled.
static int defaultMatches(const sl_slot* slot) {
  return slot->fallback && slot->node.kind == SL_NODE_CONST &&
         slSameConstant(slot->node.value, slot->fallback) == 1;
}

int slSignatureParse(PyObject* spec, int32_t leaves, sl_signature* signature) {
  if (!PyTuple_Check(spec)) {
    PyErr_SetString(PyExc_TypeError, "the input structure must be a tuple of parameters");
    return -1;
  }
  Py_ssize_t count = PyTuple_Size(spec);
  signature->slots = PyMem_Calloc(count ? (size_t)count : 1, sizeof(sl_slot));
  if (!signature->slots) {
    PyErr_NoMemory();
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    sl_slot* slot = &signature->slots[i];
    PyObject* name = NULL;
    PyObject* node = NULL;
    PyObject* fallback = NULL;
    int kind = 0;
    if (!PyArg_ParseTuple(PyTuple_GetItem(spec, i), "UiO|O", &name, &kind, &node, &fallback)) {
      return -1;
    }
    ++signature->count;
    Py_INCREF(name);
    PyUnicode_InternInPlace(&name);
    slot->name = name;
    slot->kind = (sl_slot_kind)kind;
    Py_XINCREF(fallback);
    slot->fallback = fallback;
    if (slNodeParse(node, leaves, &slot->node)) {
      return -1;
    }
    slot->skip_fallback = defaultMatches(slot);
    signature->has_out |=
        PyUnicode_CompareWithASCIIString(name, "out") == 0 && kind != SL_SLOT_POSITIONAL;
    if (kind != SL_SLOT_KEYWORD) {
      if (signature->positional != i) {
        PyErr_Format(PyExc_ValueError, "positional parameter '%U' follows a keyword-only one",
                     name);
        return -1;
      }
      ++signature->positional;
    }
  }
  return 0;
}

void slSignatureClear(sl_signature* signature) {
  for (int32_t i = 0; i < signature->count; ++i) {
    Py_CLEAR(signature->slots[i].name);
    Py_CLEAR(signature->slots[i].fallback);
    slNodeClear(&signature->slots[i].node);
  }
  PyMem_Free(signature->slots);
  signature->slots = NULL;
  signature->count = signature->positional = 0;
}

int slSignatureTraverse(const sl_signature* signature, visitproc visit, void* arg) {
  for (int32_t i = 0; i < signature->count; ++i) {
    Py_VISIT(signature->slots[i].fallback);
    int stop = slNodeTraverse(&signature->slots[i].node, visit, arg);
    if (stop) {
      return stop;
    }
  }
  return 0;
}

/// The interned string "out".
static PyObject* outName(void) {
  static PyObject* name;
  if (!name) {
    name = PyUnicode_InternFromString("out");
  }
  return name;
}

/// Slot of a keyword, -1 when there is none. Names of call sites are interned, so addresses nearly
/// always decide.
static int32_t findSlot(const sl_signature* signature, PyObject* name) {
  for (int32_t i = 0; i < signature->count; ++i) {
    if (signature->slots[i].name == name && signature->slots[i].kind != SL_SLOT_POSITIONAL) {
      return i;
    }
  }
  if (name == outName()) {
    return -1;  // interned as well, so the loop above would have found it
  }
  for (int32_t i = 0; i < signature->count; ++i) {
    if (signature->slots[i].kind != SL_SLOT_POSITIONAL &&
        PyUnicode_Compare(signature->slots[i].name, name) == 0) {
      return i;
    }
  }
  return -1;
}

static int bindKeywords(const sl_signature* signature, PyObject* const* values, PyObject* names,
                        PyObject** bound, PyObject** out) {
  Py_ssize_t count = PyTuple_Size(names);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* name = PyTuple_GetItem(names, i);
    int32_t slot = findSlot(signature, name);
    if (slot >= 0) {
      if (bound[slot]) {
        PyErr_Format(slGuardTypeError, "argument '%U' is given twice, by position and by name",
                     name);
        return -1;
      }
      bound[slot] = values[i];
    } else if (!signature->has_out &&
               (name == outName() || PyUnicode_CompareWithASCIIString(name, "out") == 0)) {
      *out = values[i] == Py_None ? NULL : values[i];
    } else {
      PyErr_Format(slGuardTypeError, "argument '%U' was not given when this was compiled", name);
      return -1;
    }
  }
  return 0;
}

int slSignatureBind(const sl_signature* signature, PyObject* const* args, Py_ssize_t nargs,
                    PyObject* names, PyObject** bound, PyObject** leaves, PyObject** out) {
  *out = NULL;
  if (nargs > signature->positional) {
    PyErr_Format(slGuardTypeError, "%zd positional arguments are given but it was compiled for %d",
                 nargs, (int)signature->positional);
    return -1;
  }
  for (int32_t i = 0; i < signature->count; ++i) {
    bound[i] = i < nargs ? args[i] : NULL;
  }
  if (names && bindKeywords(signature, args + nargs, names, bound, out)) {
    return -1;
  }
  for (int32_t i = 0; i < signature->count; ++i) {
    const sl_slot* slot = &signature->slots[i];
    PyObject* value = bound[i];
    if (!value) {
      if (slot->skip_fallback) {
        continue;
      }
      value = slot->fallback;
      if (!value) {
        PyErr_Format(slGuardTypeError, "argument '%U' is missing", slot->name);
        return -1;
      }
    }
    if (slNodeFlatten(&slot->node, value, 0, leaves)) {
      return -1;
    }
  }
  return 0;
}
