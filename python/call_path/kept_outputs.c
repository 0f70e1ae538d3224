// SPDX-License-Identifier: Apache-2.0
// reuse_outputs: the storage of an earlier result becomes an output again once no reference to that
// result remains. Accessed with the GIL held.
#include "call_path.h"

/// Whether the tensor is still what was handed out (a user may have resized it, or asked for
/// gradients of it), and where.
static int stillFits(sl_kept* kept, const sl_output_plan* plan, sl_kind kind, sl_grad_mode* mode,
                     sl_range* range) {
  sl_tensor tensor;  // its sizes may lie in the borrow, so neither leaves this function
  sl_borrow borrow;
  if (slBorrow(kept->object, plan->reused_name, mode, &kept->seen, &tensor, &borrow)) {
    PyErr_Clear();
    return 0;
  }
  int fits = borrow.kind == kind && tensor.data == kept->data;
  if (fits && slOutCheck(&tensor, &borrow, plan->reused_name, plan, plan->shape, plan->strides)) {
    PyErr_Clear();
    fits = 0;
  }
  *range = slTensorRange(&tensor);
  slBorrowEnd(&borrow);
  return fits;
}

/// Views of a result do not hold it, and one may be an argument of this call.
static int isInput(sl_range range, const sl_tensor* inputs, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    if (slRangesOverlap(range, slTensorRange(&inputs[i]))) {
      return 1;
    }
  }
  return 0;
}

static void forget(sl_kept* kept) {
  PyObject* object = kept->object;
  kept->object = NULL;
  slSeenClear(&kept->seen);
  kept->seen.last = NULL;
  Py_XDECREF(object);
}

int slKeptTake(sl_output_plan* plan, sl_fresh* fresh, sl_kind kind, sl_grad_mode* mode,
               uint64_t order, const sl_tensor* inputs, int32_t count) {
  for (int32_t k = 0; k < SL_KEPT; ++k) {
    sl_kept* kept = &plan->kept[k];
    if (!kept->object || Py_REFCNT(kept->object) != 1 || kept->order != order) {
      continue;
    }
    sl_range range;
    Py_INCREF(kept->object);  // now no other call takes it
    PyObject* object = kept->object;
    if (!stillFits(kept, plan, kind, mode, &range)) {
      forget(kept);
      Py_DECREF(object);
      continue;
    }
    if (isInput(range, inputs, count)) {
      Py_DECREF(object);
      continue;
    }
    fresh->object = object;
    fresh->data = kept->data;
    return 1;
  }
  return 0;
}

void slKeptAdd(sl_output_plan* plan, const sl_fresh* fresh, uint64_t order) {
  for (int32_t k = 0; k < SL_KEPT; ++k) {
    if (plan->kept[k].object == fresh->object) {
      return;
    }
  }
  sl_kept* kept = &plan->kept[plan->next_kept];
  plan->next_kept = (plan->next_kept + 1) % SL_KEPT;
  forget(kept);
  Py_INCREF(fresh->object);
  kept->object = fresh->object;
  kept->data = fresh->data;
  kept->order = order;
}

int slKeptTraverse(sl_output_plan* plan, visitproc visit, void* arg) {
  for (int32_t k = 0; k < SL_KEPT; ++k) {
    Py_VISIT(plan->kept[k].object);
  }
  return 0;
}

void slKeptClear(sl_output_plan* plan) {
  for (int32_t k = 0; k < SL_KEPT; ++k) {
    forget(&plan->kept[k]);
  }
}
