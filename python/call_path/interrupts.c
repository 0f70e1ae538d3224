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

/// Whether Ctrl-C raises KeyboardInterrupt: with a handler of the user's own, that handler decides
/// whether the call ends.
static int raises(void) {
  PyObject* module = PyImport_ImportModule("signal");
  PyObject* standard = module ? PyObject_GetAttrString(module, "default_int_handler") : NULL;
  PyObject* handler = standard ? PyObject_CallMethod(module, "getsignal", "i", SIGINT) : NULL;
  const int same = handler && handler == standard;
  Py_XDECREF(module);
  Py_XDECREF(standard);
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
