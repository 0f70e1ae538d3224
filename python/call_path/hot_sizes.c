// SPDX-License-Identifier: Apache-2.0
// Which named sizes calls have, counted: those that come often get a program of their own.
//
// A table of a fixed number of places, one for each hash: a call of the sizes that hold a place
// adds one to its count, any other takes one away and has the place when nothing is left. So sizes
// that come in more than half of the calls of a place are found (the majority vote of Boyer and
// Moore, in each place).
#include <string.h>

#include "callable.h"

enum { kPlaces = 64 };

struct HotSizes {
  uint32_t enough;  // calls of one combination of sizes after which `told` is called
  PyObject* told;   // owned: told({name: size})
  uint32_t counts[kPlaces];
  int64_t* sizes;  // [kPlaces][extents]
};

static size_t placeOf(const int64_t* extents, int32_t count) {
  uint64_t hash = 0;
  for (int32_t i = 0; i < count; ++i) {
    hash = (hash ^ (uint64_t)extents[i]) * UINT64_C(0x9E3779B97F4A7C15);
    hash ^= hash >> 29;
  }
  return (size_t)(hash % kPlaces);
}

/// {name: size} of the extents that inputs have; new reference.
static PyObject* named(const sl_program_desc* desc, const int64_t* extents) {
  PyObject* sizes = PyDict_New();
  for (int32_t i = 0; sizes && i < desc->extent_count; ++i) {
    if (desc->extents[i].bound.count) {
      continue;  // a statement computes it
    }
    PyObject* value = PyLong_FromLongLong(extents[i]);
    if (!value || PyDict_SetItemString(sizes, desc->extents[i].name, value)) {
      Py_CLEAR(sizes);
    }
    Py_XDECREF(value);
  }
  return sizes;
}

static void tell(Callable* self, const int64_t* extents) {
  PyObject* told = self->hot->told;
  Py_INCREF(told);  // it may end the counting
  PyObject* sizes = named(self->desc, extents);
  PyObject* result = sizes ? PyObject_CallFunctionObjArgs(told, sizes, NULL) : NULL;
  if (!result) {
    PyErr_WriteUnraisable(told);  // the call itself is none the worse for it
  }
  Py_XDECREF(result);
  Py_XDECREF(sizes);
  Py_DECREF(told);
}

void slHotSizesCount(Callable* self, const int64_t* extents) {
  HotSizes* hot = self->hot;
  const int32_t count = self->desc->extent_count;
  const size_t place = placeOf(extents, count);
  int64_t* sizes = hot->sizes + place * (size_t)count;
  if (hot->counts[place] == 0) {
    memcpy(sizes, extents, (size_t)count * sizeof *sizes);
  } else if (memcmp(sizes, extents, (size_t)count * sizeof *sizes) != 0) {
    --hot->counts[place];
    return;
  }
  if (hot->counts[place] < hot->enough && ++hot->counts[place] == hot->enough) {
    tell(self, extents);
  }
}

void slHotSizesEnd(Callable* self) {
  HotSizes* hot = self->hot;
  self->hot = NULL;
  if (hot) {
    Py_DECREF(hot->told);
    PyMem_Free(hot->sizes);
    PyMem_Free(hot);
  }
}

int slHotSizesTraverse(Callable* self, visitproc visit, void* arg) {
  if (self->hot) {
    Py_VISIT(self->hot->told);
  }
  return 0;
}

int slHotSizesBegin(Callable* self, unsigned int enough, PyObject* told) {
  HotSizes* hot = PyMem_Calloc(1, sizeof *hot);
  int64_t* sizes =
      PyMem_Calloc((size_t)kPlaces * (size_t)self->desc->extent_count + 1, sizeof *sizes);
  if (!hot || !sizes) {
    PyMem_Free(hot);
    PyMem_Free(sizes);
    PyErr_NoMemory();
    return -1;
  }
  Py_INCREF(told);
  hot->enough = enough;
  hot->told = told;
  hot->sizes = sizes;
  self->hot = hot;
  return 0;
}
