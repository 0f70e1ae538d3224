// SPDX-License-Identifier: Apache-2.0
// A function that torch.compile compiled: its arguments become the locals of its frame, Dynamo's
// guards are asked, and what they admit is called. Whatever does not fit goes the ordinary way.
#include "callable.h"

typedef struct Guarded {
  PyObject_HEAD PyObject* weak_references;
  PyObject* attributes;  // __dict__, nullable
  PyObject* plan;        // nullable; a tuple, exchanged as a whole: its places are below
  long long direct;      // calls that went to a program
} Guarded;

enum {
  kTable,       // weak references to entries, each with `check` and `call`
  kFunction,    // whose frame it is
  kFirst,       // what comes before the arguments
  kSlots,       // names of the arguments, then of the free variables
  kPositional,  // how many of the slots are positional arguments,
  kOnlyPositional,
  kOnlyKeyword,
  kFlags,       // and the code's flags: whether there are *args and **kwargs
  kSame,        // namespace, name, value that it must be
  kEmpty,       // namespace, name of what must be false or absent
  kAttributes,  // object, name, value that it must be
  kCalls,       // function without arguments, value that it must return
  kTypes,       // object, its type, its namespace
  kPlaces
};
enum { kVarargs = 0x4, kVarKeywords = 0x8 };

/// Names of attributes, interned when the type is made.
enum { kCheck, kCall, kDefaults, kKeywordDefaults, kClosure, kContents, kCompiled, kLook, kNames };
static const char* const texts[kNames] = {
    "check",       "call",          "__defaults__", "__kwdefaults__",
    "__closure__", "cell_contents", "_compiled",    "_look_undisturbed"};
static PyObject* interned[kNames];

static PyObject* item(PyObject* tuple, Py_ssize_t place) { return PyTuple_GetItem(tuple, place); }

/// 1, 0 where the call goes the ordinary way, -1 with an exception: as of all functions here.
static int namespacesHold(PyObject* same, PyObject* empty) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(same); i += 3) {
    if (PyDict_GetItemWithError(item(same, i), item(same, i + 1)) != item(same, i + 2)) {
      return PyErr_Occurred() ? -1 : 0;
    }
  }
  for (Py_ssize_t i = 0; i < PyTuple_Size(empty); i += 2) {
    PyObject* value = PyDict_GetItemWithError(item(empty, i), item(empty, i + 1));
    if (!value && PyErr_Occurred()) {
      return -1;
    }
    if (value && value != Py_None && value != Py_False) {
      Py_INCREF(value);
      const int truth = PyObject_IsTrue(value);
      Py_DECREF(value);
      if (truth) {
        return truth < 0 ? -1 : 0;
      }
    }
  }
  return 1;
}

static int objectsHold(PyObject* attributes, PyObject* calls, PyObject* types) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(types); i += 3) {
    PyObject* object = item(types, i);
    if ((PyObject*)Py_TYPE(object) != item(types, i + 1)) {
      return 0;
    }
    PyObject* names = PyObject_GenericGetDict(object, NULL);
    Py_XDECREF(names);
    if (names != item(types, i + 2)) {
      return names ? 0 : -1;
    }
  }
  for (Py_ssize_t i = 0; i < PyTuple_Size(attributes); i += 3) {
    PyObject* value = PyObject_GetAttr(item(attributes, i), item(attributes, i + 1));
    Py_XDECREF(value);
    if (value != item(attributes, i + 2)) {
      return value ? 0 : -1;
    }
  }
  for (Py_ssize_t i = 0; i < PyTuple_Size(calls); i += 2) {
    PyObject* value = PyObject_CallNoArgs(item(calls, i));
    Py_XDECREF(value);
    if (value != item(calls, i + 1)) {
      return value ? 0 : -1;
    }
  }
  return 1;
}

/// What one call binds: `slots` is owned and has NULL where nothing is bound.
typedef struct Binding {
  PyObject* plan;
  PyObject** slots;
  Py_ssize_t count, positional, only_positional, keyword, flags;
} Binding;

static void put(Binding* binding, Py_ssize_t place, PyObject* value) {
  Py_INCREF(value);
  binding->slots[place] = value;
}

static int bindPositional(Binding* binding, PyObject* args) {
  PyObject* first = item(binding->plan, kFirst);
  const Py_ssize_t before = PyTuple_Size(first);
  const Py_ssize_t given = before + PyTuple_Size(args);
  const Py_ssize_t named = given < binding->positional ? given : binding->positional;
  for (Py_ssize_t i = 0; i < named; ++i) {
    put(binding, i, i < before ? item(first, i) : item(args, i - before));
  }
  if (!(binding->flags & kVarargs)) {
    return given <= binding->positional;
  }
  if (before > named) {
    return 0;
  }
  PyObject* rest = PyTuple_GetSlice(args, named - before, PyTuple_Size(args));
  binding->slots[binding->positional + binding->keyword] = rest;
  return rest ? 1 : -1;
}

/// The place of a keyword among the arguments, or -1.
static Py_ssize_t placeOf(const Binding* binding, PyObject* name) {
  PyObject* names = item(binding->plan, kSlots);
  const Py_ssize_t end = binding->positional + binding->keyword;
  for (Py_ssize_t i = binding->only_positional; i < end; ++i) {
    if (item(names, i) == name) {
      return i;
    }
  }
  for (Py_ssize_t i = binding->only_positional; i < end; ++i) {
    if (PyUnicode_Compare(item(names, i), name) == 0) {
      return i;
    }
  }
  return -1;
}

static int bindKeywords(Binding* binding, PyObject* keywords) {
  PyObject* rest = NULL;
  if (binding->flags & kVarKeywords) {
    rest = PyDict_New();
    binding->slots[binding->positional + binding->keyword + !!(binding->flags & kVarargs)] = rest;
    if (!rest) {
      return -1;
    }
  }
  PyObject *name, *value;
  for (Py_ssize_t at = 0; keywords && PyDict_Next(keywords, &at, &name, &value);) {
    const Py_ssize_t place = placeOf(binding, name);
    if (place < 0 && rest) {
      if (PyDict_SetItem(rest, name, value)) {
        return -1;
      }
    } else if (place < 0 || binding->slots[place]) {
      return 0;  // an argument that there is not, or given twice
    } else {
      put(binding, place, value);
    }
  }
  return 1;
}

static int bindDefaults(Binding* binding) {
  PyObject* function = item(binding->plan, kFunction);
  PyObject* names = item(binding->plan, kSlots);
  PyObject* defaults = NULL;
  int holds = 1;
  for (Py_ssize_t i = 0; i < binding->positional && holds == 1; ++i) {
    if (binding->slots[i]) {
      continue;
    }
    defaults = defaults ? defaults : PyObject_GetAttr(function, interned[kDefaults]);
    const Py_ssize_t count = defaults && PyTuple_Check(defaults) ? PyTuple_Size(defaults) : 0;
    const Py_ssize_t place = i - (binding->positional - count);
    holds = !defaults ? -1 : place >= 0 && place < count;
    if (holds == 1) {
      put(binding, i, item(defaults, place));
    }
  }
  Py_XDECREF(defaults);
  PyObject* of_keywords = NULL;
  const Py_ssize_t end = binding->positional + binding->keyword;
  for (Py_ssize_t i = binding->positional; i < end && holds == 1; ++i) {
    if (binding->slots[i]) {
      continue;
    }
    of_keywords =
        of_keywords ? of_keywords : PyObject_GetAttr(function, interned[kKeywordDefaults]);
    PyObject* value = of_keywords && PyDict_Check(of_keywords)
                          ? PyDict_GetItemWithError(of_keywords, item(names, i))
                          : NULL;
    holds = value ? 1 : PyErr_Occurred() ? -1 : 0;
    if (value) {
      put(binding, i, value);
    }
  }
  Py_XDECREF(of_keywords);
  return holds;
}

static int bindFree(Binding* binding, Py_ssize_t begin) {
  if (begin == binding->count) {
    return 1;
  }
  PyObject* cells = PyObject_GetAttr(item(binding->plan, kFunction), interned[kClosure]);
  int holds = !cells ? -1 : PyTuple_Check(cells) && PyTuple_Size(cells) == binding->count - begin;
  for (Py_ssize_t i = begin; i < binding->count && holds == 1; ++i) {
    binding->slots[i] = PyObject_GetAttr(item(cells, i - begin), interned[kContents]);
    holds = binding->slots[i] ? 1 : -1;  // an empty cell is an error here, and the ordinary way's
  }
  Py_XDECREF(cells);
  return holds;
}

static int bindAll(Binding* binding, PyObject* args, PyObject* keywords) {
  int holds = bindPositional(binding, args);
  holds = holds == 1 ? bindKeywords(binding, keywords) : holds;
  holds = holds == 1 ? bindDefaults(binding) : holds;
  const Py_ssize_t stars = !!(binding->flags & kVarargs) + !!(binding->flags & kVarKeywords);
  return holds == 1 ? bindFree(binding, binding->positional + binding->keyword + stars) : holds;
}

/// The function that the first entry with fitting guards has for the frame: a new reference, None
/// where it goes the ordinary way or where no entry fits; NULL with an exception.
static PyObject* findCall(const Binding* binding) {
  PyObject* locals = PyDict_New();
  PyObject* names = item(binding->plan, kSlots);
  PyObject* table = item(binding->plan, kTable);
  PyObject* found = NULL;
  for (Py_ssize_t i = 0; locals && i < binding->count; ++i) {
    if (PyDict_SetItem(locals, item(names, i), binding->slots[i])) {
      Py_CLEAR(locals);
    }
  }
  for (Py_ssize_t i = 0; locals && !found && i < PyTuple_Size(table); ++i) {
    PyObject* entry = PyWeakref_GetObject(item(table, i));
    if (!entry || entry == Py_None) {
      continue;
    }
    Py_INCREF(entry);
    PyObject* check = PyObject_GetAttr(entry, interned[kCheck]);
    PyObject* fits = check ? PyObject_CallFunctionObjArgs(check, locals, NULL) : NULL;
    if (!fits) {
      Py_CLEAR(locals);
    } else if (fits == Py_True) {
      found = PyObject_GetAttr(entry, interned[kCall]);
    }
    Py_XDECREF(fits);
    Py_XDECREF(check);
    Py_DECREF(entry);
  }
  if (locals && !found && !PyErr_Occurred()) {
    found = Py_None;
    Py_INCREF(found);
  }
  Py_XDECREF(locals);
  return found;
}

enum { kMostSlots = 32 };

/// A program called with some of the slots: (program, places, place of the result that is
/// returned).
static PyObject* callProgram(PyObject* plain, PyObject* const* slots, Py_ssize_t count) {
  PyObject* program = item(plain, 0);
  PyObject* places = item(plain, 1);
  PyObject* values[kMostSlots];
  const Py_ssize_t given = PyTuple_Size(places);
  for (Py_ssize_t i = 0; i < given; ++i) {
    const Py_ssize_t place = PyLong_AsSsize_t(item(places, i));
    if (given > kMostSlots || place < 0 || place >= count) {
      PyErr_SetString(slInternalError, "a place among arguments that there is not");
      return NULL;
    }
    values[i] = slots[place];
  }
  PyObject* results = slCallAny((Callable*)program, values, given, NULL);
  PyObject* result = results && PyTuple_Check(results)
                         ? PyTuple_GetItem(results, PyLong_AsSsize_t(item(plain, 2)))
                         : NULL;
  Py_XINCREF(result);
  Py_XDECREF(results);
  return result;
}

/// Calls what findCall found. Takes the references in `slots`.
static PyObject* enter(PyObject* call, PyObject** slots, Py_ssize_t count) {
  PyObject* result = NULL;
  if (PyTuple_Check(call)) {
    result = callProgram(call, slots, count);
    for (Py_ssize_t i = 0; i < count; ++i) {
      Py_DECREF(slots[i]);
    }
    return result;
  }
  PyObject* arguments = PyTuple_New(count);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (arguments) {
      PyTuple_SetItem(arguments, i, slots[i]);
    } else {
      Py_DECREF(slots[i]);
    }
  }
  result = arguments ? PyObject_Call(call, arguments, NULL) : NULL;
  Py_XDECREF(arguments);
  return result;
}

/// What the frame's function is and its arguments, ready to call; 1, 0 or -1.
static int prepare(PyObject* plan, PyObject* args, PyObject* keywords, PyObject** call,
                   PyObject** slots, Py_ssize_t* count) {
  int holds = namespacesHold(item(plan, kSame), item(plan, kEmpty));
  holds = holds == 1 ? objectsHold(item(plan, kAttributes), item(plan, kCalls), item(plan, kTypes))
                     : holds;
  if (holds != 1) {
    return holds;
  }
  Binding binding = {plan,
                     slots,
                     PyTuple_Size(item(plan, kSlots)),
                     PyLong_AsSsize_t(item(plan, kPositional)),
                     PyLong_AsSsize_t(item(plan, kOnlyPositional)),
                     PyLong_AsSsize_t(item(plan, kOnlyKeyword)),
                     PyLong_AsSsize_t(item(plan, kFlags))};
  if (binding.count > kMostSlots) {
    return 0;
  }
  holds = bindAll(&binding, args, keywords);
  *call = holds == 1 ? findCall(&binding) : NULL;
  holds = holds == 1 ? (*call ? *call != Py_None : -1) : holds;
  *count = binding.count;
  for (Py_ssize_t i = 0; holds != 1 && i < binding.count; ++i) {
    Py_XDECREF(slots[i]);
  }
  return holds;
}

/// The call through torch.compile, after which there may be another entry: `_look` sees.
static PyObject* callOrdinary(PyObject* self, PyObject* args, PyObject* keywords) {
  PyObject* compiled = PyObject_GetAttr(self, interned[kCompiled]);
  PyObject* result = compiled ? PyObject_Call(compiled, args, keywords) : NULL;
  Py_XDECREF(compiled);
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject* look = PyObject_GetAttr(self, interned[kLook]);
  PyObject* looked = look ? PyObject_CallFunctionObjArgs(look, self, NULL) : NULL;
  Py_XDECREF(look);
  if (!looked) {
    if (!result) {
      PyErr_Clear();  // of two errors the call's
    }
    Py_CLEAR(result);
  }
  Py_XDECREF(looked);
  if (type) {
    PyErr_Restore(type, value, trace);
  }
  return result;
}

static PyObject* callGuarded(PyObject* object, PyObject* args, PyObject* keywords) {
  Guarded* self = (Guarded*)object;
  PyObject* plan = self->plan;
  if (plan && PyTuple_Check(plan) && PyTuple_Size(plan) == kPlaces) {
    PyObject* call = NULL;
    PyObject* slots[kMostSlots] = {NULL};
    Py_ssize_t count = 0;
    Py_INCREF(plan);
    const int holds = prepare(plan, args, keywords, &call, slots, &count);
    Py_DECREF(plan);
    PyObject* result = NULL;
    if (holds == 1) {
      self->direct += 1;
      result = enter(call, slots, count);
    }
    Py_XDECREF(call);
    if (holds == 1 || (holds < 0 && !PyErr_ExceptionMatches(PyExc_Exception))) {
      return result;
    }
    PyErr_Clear();  // torch.compile comes to the same error, and says it in torch's words
  }
  return callOrdinary(object, args, keywords);
}

static PyObject* newGuarded(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  (void)args;
  (void)keywords;
  return PyType_GenericAlloc(type, 0);
}

static int traverse(PyObject* object, visitproc visit, void* arg) {
  Guarded* self = (Guarded*)object;
  Py_VISIT((PyObject*)Py_TYPE(object));
  Py_VISIT(self->attributes);
  Py_VISIT(self->plan);
  return 0;
}

static int clear(PyObject* object) {
  Guarded* self = (Guarded*)object;
  Py_CLEAR(self->attributes);
  Py_CLEAR(self->plan);
  return 0;
}

static void dealloc(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  if (((Guarded*)object)->weak_references) {
    PyObject_ClearWeakRefs(object);
  }
  clear(object);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF((PyObject*)type);
}

static PyMemberDef members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(Guarded, attributes), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Guarded, weak_references), READONLY, NULL},
    {"_plan", T_OBJECT, offsetof(Guarded, plan), 0, "What a call goes by; None: the ordinary way."},
    {"_direct", T_LONGLONG, offsetof(Guarded, direct), READONLY, "Calls that entered a program."},
    {NULL, 0, 0, 0, NULL},
};
static PyGetSetDef properties[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_doc, "A function that torch.compile compiled, called behind Dynamo's guards."},
    {Py_tp_new, newGuarded},
    {Py_tp_call, callGuarded},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_dealloc, dealloc},
    {Py_tp_members, members},
    {Py_tp_getset, properties},
    {0, NULL},
};

PyObject* slGuardedType(void) {
  for (int i = 0; i < kNames; ++i) {
    interned[i] = PyUnicode_InternFromString(texts[i]);
    if (!interned[i]) {
      return NULL;
    }
  }
  PyType_Spec spec = {
      .name = "straightline._call.Guarded",
      .basicsize = sizeof(Guarded),
      .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
      .slots = slots,
  };
  return PyType_FromSpec(&spec);
}
