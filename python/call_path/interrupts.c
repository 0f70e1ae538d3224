// SPDX-License-Identifier: Apache-2.0
// Ctrl-C while a program runs: the run ends at its next back edge, and Python's own handler raises
// KeyboardInterrupt.
//
// Python's handler only sets a flag for the interpreter, and a loop of a program never returns to
// the interpreter. During a run on the main thread, where Python handles signals, another handler
// comes first, which also sets the cancel flag of the run's context.
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "call_path.h"

static int32_t requested_;          // what sl_ctx.cancel points at; written by the handler
static struct sigaction previous_;  // Python's, while watching_
static int watching_;               // only the main thread looks at it

static void onInterrupt(int number) {
  __atomic_store_n(&requested_, 1, __ATOMIC_RELAXED);
  previous_.sa_handler(number);
}

/// `_signal.getsignal`, what it is called with, and what it returns where Ctrl-C raises; made once.
/// Of the module that `signal` is made of, whose function makes no enumerator of the answer: this
/// is asked in each call of a program with a loop.
static struct {
  PyObject *getsignal, *number, *raising;
} python_;

static int knowsPython(void) {
  if (python_.raising) {
    return 1;
  }
  PyObject* module = PyImport_ImportModule("_signal");
  if (module) {
    python_.getsignal = PyObject_GetAttrString(module, "getsignal");
    python_.number = PyLong_FromLong(SIGINT);
    python_.raising = python_.getsignal && python_.number
                          ? PyObject_GetAttrString(module, "default_int_handler")
                          : NULL;
    Py_DECREF(module);
  }
  return python_.raising != NULL;
}

/// Whether Ctrl-C raises KeyboardInterrupt: with a handler of the user's own, that handler decides
/// whether the call ends.
static int raises(void) {
  PyObject* handler =
      knowsPython() ? PyObject_CallFunctionObjArgs(python_.getsignal, python_.number, NULL) : NULL;
  const int same = handler && handler == python_.raising;
  Py_XDECREF(handler);
  PyErr_Clear();
  return same;
}

const int32_t* slInterruptsBegin(void) {
  if (watching_ || getpid() != (pid_t)syscall(SYS_gettid) || !raises()) {
    return NULL;
  }
  if (sigaction(SIGINT, NULL, &previous_) || (previous_.sa_flags & SA_SIGINFO) ||
      previous_.sa_handler == SIG_DFL || previous_.sa_handler == SIG_IGN) {
    return NULL;
  }
  __atomic_store_n(&requested_, 0, __ATOMIC_RELAXED);
  struct sigaction ours = previous_;
  ours.sa_handler = onInterrupt;
  watching_ = sigaction(SIGINT, &ours, NULL) == 0;
  return watching_ ? &requested_ : NULL;
}

int slInterruptsEnd(const int32_t* cancel) {
  if (!cancel) {
    return 0;
  }
  sigaction(SIGINT, &previous_, NULL);
  watching_ = 0;
  return __atomic_load_n(cancel, __ATOMIC_RELAXED) != 0 && PyErr_CheckSignals() != 0;
}
