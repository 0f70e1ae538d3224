// SPDX-License-Identifier: Apache-2.0
// Turns a Python object into a borrowed tensor. The checks here are those that a tensor's
// description cannot express: negated views, tensors that require grad, wrappers without storage;
// an exchange table would hand these over with another meaning. The guard checks everything else
// (dtype, device, sizes, strides).
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "call_path.h"

// What is known of a framework, looked up once when its first tensor arrives. Types and descriptors
// are never released.
static struct {
  PyTypeObject* tensor;
  PyTypeObject* parameter;
  const sl_dl_exchange* exchange;
  PyObject*
      // getset descriptor of the base class; called directly, it costs no look-up
      requires_grad;
  descrgetfunc get_requires_grad;
  PyCFunction is_neg;          // C function behind Tensor.is_neg
  bool (*grad_enabled)(void);  // from torch's C shim, NULL when it has none
  PyObject* is_grad_enabled;
  PyObject* increment_version;  // torch._C's: of each tensor that it is given
  PyCFunction increment;        // C function behind it, of one argument; nullable
} torch_;

// numpy's array interface in C: what an `__array_struct__` capsule points to.
typedef struct ArrayStruct {
  int two;
  int rank;
  char kind;
  int item_bytes;
  int flags;
  Py_intptr_t* shape;
  Py_intptr_t* strides;  // bytes
  void* data;
  PyObject* descr;
} ArrayStruct;
enum { kArrayAligned = 0x100, kArrayNativeOrder = 0x200, kArrayWritable = 0x400 };

static struct {
  PyTypeObject* array;
  PyObject* array_struct;
  descrgetfunc get_array_struct;
} numpy_;

// Exchange tables of other types. A few types are remembered; more than that are looked up every
// time.
enum { kMaxTypes = 16 };
static struct {
  PyTypeObject* type;
  const sl_dl_exchange* exchange;
  // Descriptor of `stop_gradient`, which Paddle's tensors have: called directly, it costs no
  // look-up. NULL: the type has none.
  PyObject* stop_gradient;
  descrgetfunc get_stop_gradient;
} types_[kMaxTypes];
static int type_count_;

const char* slKindName(sl_kind kind) {
  switch (kind) {
    case SL_KIND_NONE:
      return "nothing";
    case SL_KIND_TORCH:
      return "a torch tensor";
    case SL_KIND_NUMPY:
      return "a numpy array";
    case SL_KIND_EXCHANGE:
      return "a tensor of another framework";
    case SL_KIND_DLPACK:
      return "a __dlpack__ object";
    case SL_KIND_JAX:
      return "an array of JAX";
  }
  return "unknown";
}

static const sl_dl_exchange* exchangeOf(PyTypeObject* type) {
  PyObject* capsule = PyObject_GetAttrString((PyObject*)type, SL_DL_EXCHANGE_ATTRIBUTE);
  if (!capsule) {
    PyErr_Clear();
    return NULL;
  }
  const sl_dl_exchange* table = PyCapsule_GetPointer(capsule, SL_DL_EXCHANGE_CAPSULE);
  Py_DECREF(capsule);
  if (!table) {
    PyErr_Clear();
    return NULL;
  }
  while (table && table->version.major != SL_DLPACK_MAJOR) {
    table = table->older;
  }
  return table && table->borrow ? table : NULL;
}

/// Borrowed reference to sys.modules[name], NULL (no exception) when it is not imported.
static PyObject* importedModule(const char* name) {
  PyObject* modules = PyImport_GetModuleDict();
  return modules ? PyDict_GetItemString(modules, name) : NULL;
}

/// Whether the module named torch is PyTorch. Another framework may use that name (Paddle's proxy
/// does), with tensors of its own. Never raises.
static int isPytorch(PyObject* torch) {
  PyObject* tensor = PyObject_GetAttrString(torch, "Tensor");
  PyObject* module = tensor ? PyObject_GetAttrString(tensor, "__module__") : NULL;
  const int is = module && PyType_Check(tensor) && PyUnicode_Check(module) &&
                 PyUnicode_CompareWithASCIIString(module, "torch") == 0;
  Py_XDECREF(tensor);
  Py_XDECREF(module);
  PyErr_Clear();
  return is;
}

/// The functions of PyTorch that are called; owned references.
typedef struct TorchParts {
  PyObject *tensor, *nn, *parameter, *enabled, *grad, *sample, *is_neg, *functions, *increment;
} TorchParts;

/// 0, or -1 with the exception for the first missing function.
static int findParts(PyObject* torch, TorchParts* parts) {
  return !(parts->tensor = PyObject_GetAttrString(torch, "Tensor")) ||
                 !(parts->nn = PyImport_ImportModule("torch.nn")) ||
                 !(parts->parameter = PyObject_GetAttrString(parts->nn, "Parameter")) ||
                 !(parts->enabled = PyObject_GetAttrString(torch, "is_grad_enabled")) ||
                 !(parts->grad = PyObject_GetAttrString(parts->tensor, "requires_grad")) ||
                 !(parts->sample = PyObject_CallMethod(torch, "empty", "i", 0)) ||
                 !(parts->is_neg = PyObject_GetAttrString(parts->sample, "is_neg")) ||
                 !(parts->functions = PyObject_GetAttrString(torch, "_C")) ||
                 !(parts->increment =
                       PyObject_GetAttrString(parts->functions, "_increment_version"))
             ? -1
             : 0;
}

/// Keeps what it takes of the parts. 0, or -1 with UnsupportedError.
static int keepParts(TorchParts* parts) {
  const sl_dl_exchange* exchange = exchangeOf((PyTypeObject*)parts->tensor);
  if (!exchange) {
    PyErr_SetString(slUnsupportedError,
                    "this torch has no dlpack exchange table: torch 2.10 or newer is needed");
    return -1;
  }
  descrgetfunc get = (descrgetfunc)PyType_GetSlot(Py_TYPE(parts->grad), Py_tp_descr_get);
  if (!get || !PyType_Check(parts->parameter) || !PyCFunction_Check(parts->is_neg) ||
      PyCFunction_GetFlags(parts->is_neg) != METH_NOARGS) {
    PyErr_SetString(slUnsupportedError,
                    "torch.Tensor.requires_grad or is_neg is not what it was up to torch 2.13");
    return -1;
  }
  torch_.parameter = (PyTypeObject*)parts->parameter;
  torch_.exchange = exchange;
  torch_.requires_grad = parts->grad;
  torch_.get_requires_grad = get;
  torch_.is_neg = PyCFunction_GetFunction(parts->is_neg);
  torch_.is_grad_enabled = parts->enabled;
  torch_.increment_version = parts->increment;
  if (PyCFunction_Check(parts->increment) && PyCFunction_GetFlags(parts->increment) == METH_O) {
    torch_.increment = PyCFunction_GetFunction(parts->increment);
  }
  void* library = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
  if (library) {
    *(void**)&torch_.grad_enabled = dlsym(library, "aoti_torch_grad_mode_is_enabled");
  }
  torch_.tensor = (PyTypeObject*)parts->tensor;
  // Kept above.
  parts->parameter = parts->enabled = parts->grad = parts->tensor = parts->increment = NULL;
  return 0;
}

/// Learns PyTorch. 0, or -1 with an exception.
static int torchInit(PyObject* torch) {
  TorchParts parts = {0};
  int result = findParts(torch, &parts);
  if (result && PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_Format(slUnsupportedError, "this torch lacks what a call needs: %S", value);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
  }
  result = result ? result : keepParts(&parts);
  Py_XDECREF(parts.tensor);
  Py_XDECREF(parts.nn);
  Py_XDECREF(parts.parameter);
  Py_XDECREF(parts.enabled);
  Py_XDECREF(parts.grad);
  Py_XDECREF(parts.sample);
  Py_XDECREF(parts.is_neg);
  Py_XDECREF(parts.functions);
  Py_XDECREF(parts.increment);
  return result;
}

const sl_dl_exchange* slTorchExchange(void) {
  if (!torch_.tensor) {
    PyObject* torch = PyImport_ImportModule("torch");
    if (torch && !isPytorch(torch)) {
      PyObject* words = slSupport("no_torch", "(O)", torch);
      if (words) {
        PyErr_SetObject(slUserError, words);
        Py_DECREF(words);
      }
      Py_CLEAR(torch);
    }
    if (!torch || torchInit(torch)) {
      Py_XDECREF(torch);
      return NULL;
    }
    Py_DECREF(torch);
  }
  return torch_.exchange;
}

PyTypeObject* slTorchTensorType(void) { return torch_.tensor; }

int slTorchWritten(PyObject* tensors) {
  PyObject* none = torch_.increment
                       ? torch_.increment(PyCFunction_GetSelf(torch_.increment_version), tensors)
                       : PyObject_CallFunctionObjArgs(torch_.increment_version, tensors, NULL);
  Py_XDECREF(none);
  return none ? 0 : -1;
}

int slTorchIsNegated(PyObject* object) {
  PyObject* negated = torch_.is_neg(object, NULL);
  const int result = negated ? negated != Py_False : -1;
  Py_XDECREF(negated);
  return result;
}

int slTorchRequiresGrad(PyObject* object) {
  PyObject* grad =
      torch_.get_requires_grad(torch_.requires_grad, object, (PyObject*)Py_TYPE(object));
  const int result = grad ? grad != Py_False : -1;
  Py_XDECREF(grad);
  return result;
}

static int numpyInit(PyObject* numpy) {
  PyObject* array = PyObject_GetAttrString(numpy, "ndarray");
  PyObject* descriptor = array ? PyObject_GetAttrString(array, "__array_struct__") : NULL;
  descrgetfunc get =
      descriptor ? (descrgetfunc)PyType_GetSlot(Py_TYPE(descriptor), Py_tp_descr_get) : NULL;
  if (!get) {
    if (!PyErr_Occurred()) {
      PyErr_SetString(slUnsupportedError, "this numpy's __array_struct__ is not what it was");
    }
    Py_XDECREF(array);
    Py_XDECREF(descriptor);
    return -1;
  }
  numpy_.array_struct = descriptor;
  numpy_.get_array_struct = get;
  numpy_.array = (PyTypeObject*)array;
  return 0;
}

/// Learns the frameworks that are imported by now. 0 or -1.
static int learnFrameworks(void) {
  if (!torch_.tensor) {
    PyObject* torch = importedModule("torch");
    if (torch && isPytorch(torch) && torchInit(torch)) {
      return -1;
    }
  }
  if (!numpy_.array) {
    PyObject* numpy = importedModule("numpy");
    if (numpy && PyObject_HasAttrString(numpy, "ndarray") && numpyInit(numpy)) {
      return -1;
    }
  }
  return slJaxLearn();
}

/// Whether the exception, if there is one, says nothing about the object: it asks the process to
/// stop, or memory is short.
static int passesThrough(void) {
  return PyErr_Occurred() &&
         (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError));
}

/// Raises "input 'x' <reason>". Python code finds the reason: this path may be slow and can inspect
/// the object.
static int refuse(PyObject* object, PyObject* name) {
  if (passesThrough()) {
    return -1;
  }
  PyObject* type = NULL;
  PyObject* value = NULL;
  PyObject* traceback = NULL;
  PyErr_Fetch(&type, &value, &traceback);  // the framework's own error, if there is one
  PyObject* reason = slSupport("refusal", "(OO)", object, value ? value : Py_None);
  if (reason) {
    PyErr_Format(slGuardTypeError, "'%U' %U", name, reason);
    Py_DECREF(reason);
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return -1;
}

static int fromDl(const sl_dl_tensor* dl, PyObject* name, sl_tensor* tensor) {
  if (dl->rank > SL_MAX_RANK) {
    PyErr_Format(slGuardError, "'%U' has rank %d but at most %d is supported", name, (int)dl->rank,
                 SL_MAX_RANK);
    return -1;
  }
  tensor->data = (char*)dl->data + dl->byte_offset;
  const uintptr_t bytes = dl->dtype.bits / 8;
  if (bytes > 1 && bytes <= 8 && ((uintptr_t)tensor->data & (bytes - 1))) {
    PyErr_Format(slGuardTypeError, "'%U' is not aligned to its %d-byte elements: give a copy", name,
                 (int)bytes);
    return -1;
  }
  tensor->shape = dl->shape;
  tensor->strides = dl->strides;
  tensor->rank = dl->rank;
  tensor->dtype = dl->dtype;
  tensor->device_type = dl->device.type;
  tensor->device_id = dl->device.id;
  return 0;
}

static int elementCountIsZero(const sl_tensor* tensor) {
  for (int32_t d = 0; d < tensor->rank; ++d) {
    if (tensor->shape[d] == 0) {
      return 1;
    }
  }
  return 0;
}

static int gradEnabled(sl_grad_mode* mode) {
  if (mode->enabled < 0) {
    if (torch_.grad_enabled) {
      mode->enabled = torch_.grad_enabled();
    } else {
      PyObject* answer = PyObject_CallObject(torch_.is_grad_enabled, NULL);
      if (!answer) {
        return -1;
      }
      mode->enabled = answer == Py_True;
      Py_DECREF(answer);
    }
  }
  return mode->enabled;
}

/// Whether this very object is known not to be a negated view.
static int seenBefore(const sl_seen* seen, PyObject* object, const void* data) {
  return seen && seen->weak && seen->data == data && PyWeakref_GetObject(seen->weak) == object;
}

/// Remembers an object when it comes for the second time in a row, so that an object that comes
/// once costs no weak reference.
static int remember(sl_seen* seen, PyObject* object, void* data) {
  if (seen && seen->last == object) {
    Py_CLEAR(seen->weak);
    seen->weak = PyWeakref_NewRef(object, NULL);
    seen->data = data;
    return seen->weak ? 0 : -1;
  }
  if (seen) {
    seen->last = object;
  }
  return 0;
}

static int borrowTorch(PyObject* object, PyObject* name, sl_grad_mode* mode, sl_seen* seen,
                       sl_tensor* tensor, sl_borrow* borrow) {
  sl_dl_tensor dl;
  if (torch_.exchange->borrow(object, &dl)) {
    return refuse(object, name);
  }
  if (fromDl(&dl, name, tensor)) {
    return -1;
  }
  if (!tensor->data && !elementCountIsZero(tensor)) {
    return refuse(object, name);
  }
  if (!seenBefore(seen, object, tensor->data)) {
    if (slTorchIsNegated(object)) {
      return refuse(object, name);
    }
    if (remember(seen, object, tensor->data)) {
      return -1;
    }
  }
  if (mode) {
    int enabled = gradEnabled(mode);
    if (enabled < 0) {
      return -1;
    }
    if (enabled) {
      PyObject* grad =
          torch_.get_requires_grad(torch_.requires_grad, object, (PyObject*)Py_TYPE(object));
      if (grad != Py_False) {
        Py_XDECREF(grad);
        return refuse(object, name);
      }
      Py_DECREF(grad);
    }
  }
  borrow->kind = SL_KIND_TORCH;
  borrow->exchange = torch_.exchange;
  borrow->read_only = 0;
  return 0;
}

static ArrayStruct* arrayStruct(PyObject* array, PyObject** capsule) {
  *capsule = numpy_.get_array_struct(numpy_.array_struct, array, (PyObject*)Py_TYPE(array));
  return *capsule ? PyCapsule_GetPointer(*capsule, NULL) : NULL;
}

int slNumpyData(PyObject* array, void** data) {
  if (!numpy_.array && learnFrameworks()) {
    return -1;
  }
  PyObject* capsule = NULL;
  ArrayStruct* interface = arrayStruct(array, &capsule);
  if (interface) {
    *data = interface->data;
  }
  Py_XDECREF(capsule);
  return interface ? 0 : -1;
}

/// The dtypes of ml_dtypes, which numpy says no more of than their size: told by name.
static int namedDtype(PyObject* array, sl_dtype* dtype) {
  PyObject* own = PyObject_GetAttrString(array, "dtype");
  PyObject* pair = own ? slSupport("extension_dtype", "(O)", own) : NULL;
  Py_XDECREF(own);
  int code = -1;
  int bits = 0;
  const int known = pair && PyArg_ParseTuple(pair, "ii", &code, &bits) && code >= 0;
  Py_XDECREF(pair);
  if (!known) {
    PyErr_Clear();
    return -1;
  }
  dtype->code = (uint8_t)code;
  dtype->bits = (uint8_t)bits;
  dtype->lanes = 1;
  return 0;
}

static int arrayDtype(PyObject* array, const ArrayStruct* interface, sl_dtype* dtype) {
  if (interface->kind == 'V' || (interface->kind == 'f' && interface->item_bytes == 1)) {
    return namedDtype(array, dtype);
  }
  switch (interface->kind) {
    case 'i':
      dtype->code = 0;
      break;
    case 'u':
      dtype->code = 1;
      break;
    case 'f':
      dtype->code = 2;
      break;
    case 'c':
      dtype->code = 5;
      break;
    case 'b':
      dtype->code = 6;
      break;
    default:
      return -1;
  }
  dtype->bits = (uint8_t)(interface->item_bytes * 8);
  dtype->lanes = 1;
  return interface->item_bytes > 16 ? -1 : 0;
}

static int borrowNumpy(PyObject* object, PyObject* name, sl_tensor* tensor, sl_borrow* borrow) {
  PyObject* capsule = NULL;
  ArrayStruct* interface = arrayStruct(object, &capsule);
  if (!interface) {
    Py_XDECREF(capsule);
    return refuse(object, name);
  }
  int bad = interface->rank > SL_MAX_RANK || arrayDtype(object, interface, &tensor->dtype) ||
            !(interface->flags & kArrayNativeOrder) || !(interface->flags & kArrayAligned);
  for (int d = 0; !bad && d < interface->rank; ++d) {
    borrow->shape[d] = interface->shape[d];
    borrow->strides[d] = interface->strides[d] / interface->item_bytes;
    bad = interface->strides[d] % interface->item_bytes != 0;
  }
  tensor->data = interface->data;
  tensor->shape = borrow->shape;
  tensor->strides = borrow->strides;
  tensor->rank = interface->rank;
  tensor->device_type = SL_DLPACK_CPU;
  tensor->device_id = 0;
  borrow->kind = SL_KIND_NUMPY;
  borrow->exchange = NULL;
  borrow->read_only = !(interface->flags & kArrayWritable);
  Py_DECREF(capsule);
  return bad ? refuse(object, name) : 0;
}

static PyObject* dlpackCapsule(PyObject* object) {
  PyObject* method = PyObject_GetAttrString(object, "__dlpack__");
  PyObject* none = method ? PyTuple_New(0) : NULL;
  PyObject* keywords =
      none ? Py_BuildValue("{s(ii)}", "max_version", SL_DLPACK_MAJOR, SL_DLPACK_MINOR) : NULL;
  PyObject* capsule = keywords ? PyObject_Call(method, none, keywords) : NULL;
  if (!capsule && keywords && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();  // a producer from before version 1 knows no max_version
    capsule = PyObject_Call(method, none, NULL);
  }
  Py_XDECREF(method);
  Py_XDECREF(none);
  Py_XDECREF(keywords);
  return capsule;
}

/// The capsule is held, not consumed: dropping it after the call makes its own destructor call the
/// deleter.
static int borrowDlpack(PyObject* object, PyObject* name, sl_tensor* tensor, sl_borrow* borrow) {
  PyObject* device = PyObject_CallMethod(object, "__dlpack_device__", NULL);
  PyObject* device_type = device ? PySequence_GetItem(device, 0) : NULL;
  long type = device_type ? PyLong_AsLong(device_type) : -1;
  Py_XDECREF(device);
  Py_XDECREF(device_type);
  if (PyErr_Occurred() || type != SL_DLPACK_CPU) {
    return refuse(object, name);
  }
  PyObject* capsule = dlpackCapsule(object);
  if (!capsule) {
    return refuse(object, name);
  }
  const sl_dl_tensor* dl = NULL;
  borrow->read_only = 0;
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    const sl_dl_managed* managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (managed->version.major == SL_DLPACK_MAJOR) {
      dl = &managed->tensor;
      borrow->read_only = (managed->flags & SL_DLPACK_READ_ONLY) != 0;
    }
  } else if (PyCapsule_IsValid(capsule, "dltensor")) {
    dl = &((const sl_dl_managed_legacy*)PyCapsule_GetPointer(capsule, "dltensor"))->tensor;
  }
  if (!dl) {
    PyErr_Format(PyExc_TypeError, "__dlpack__ gave %R, which is no unused capsule of DLPack %d",
                 capsule, SL_DLPACK_MAJOR);
    Py_DECREF(capsule);
    return refuse(object, name);
  }
  if (fromDl(dl, name, tensor)) {
    Py_DECREF(capsule);
    return -1;
  }
  borrow->kind = SL_KIND_DLPACK;
  borrow->exchange = NULL;
  borrow->hold = capsule;
  return 0;
}

/// 1 when gradients of a tensor with `stop_gradient` would be recorded, 0 if not, -1 on error.
/// Python code asks for the grad mode, where the tensor says that it takes part.
static int recordsGradient(PyObject* object, PyObject* stop_gradient, descrgetfunc get) {
  if (get) {
    PyObject* stops = get(stop_gradient, object, (PyObject*)Py_TYPE(object));
    if (!stops) {
      return -1;
    }
    Py_DECREF(stops);
    if (stops == Py_True) {
      return 0;
    }
  }
  PyObject* answer = slSupport("records_gradient", "(O)", object);
  const int records = answer ? answer == Py_True : -1;
  Py_XDECREF(answer);
  return records;
}

/// What is known of a type: `found` borrows from it, or from the list of known types.
typedef struct KnownType {
  const sl_dl_exchange* exchange;
  PyObject* stop_gradient;  ///< borrowed
  descrgetfunc get_stop_gradient;
} KnownType;

static KnownType knownType(PyTypeObject* type) {
  KnownType found = {NULL, NULL, NULL};
  for (int i = 0; i < type_count_; ++i) {
    if (types_[i].type == type) {
      found.exchange = types_[i].exchange;
      found.stop_gradient = types_[i].stop_gradient;
      found.get_stop_gradient = types_[i].get_stop_gradient;
      return found;
    }
  }
  found.exchange = exchangeOf(type);
  PyObject* stop_gradient = PyObject_GetAttrString((PyObject*)type, "stop_gradient");
  if (!stop_gradient) {
    PyErr_Clear();
  }
  found.stop_gradient = stop_gradient;
  if (stop_gradient) {
    found.get_stop_gradient = (descrgetfunc)PyType_GetSlot(Py_TYPE(stop_gradient), Py_tp_descr_get);
  }
  if (type_count_ < kMaxTypes && found.exchange) {
    Py_INCREF((PyObject*)type);
    types_[type_count_].type = type;
    types_[type_count_].stop_gradient = stop_gradient;  // kept
    types_[type_count_].get_stop_gradient = found.get_stop_gradient;
    types_[type_count_++].exchange = found.exchange;
  } else {
    Py_XDECREF(stop_gradient);  // the type keeps it
  }
  return found;
}

static int borrowOther(PyObject* object, PyObject* name, sl_grad_mode* mode, sl_tensor* tensor,
                       sl_borrow* borrow) {
  PyTypeObject* type = Py_TYPE(object);
  const KnownType known = knownType(type);
  if (mode && known.stop_gradient) {
    const int records = recordsGradient(object, known.stop_gradient, known.get_stop_gradient);
    if (records) {
      return records < 0 ? -1 : refuse(object, name);
    }
  }
  if (known.exchange) {
    sl_dl_tensor dl;
    if (known.exchange->borrow(object, &dl)) {
      return refuse(object, name);
    }
    borrow->kind = SL_KIND_EXCHANGE;
    borrow->exchange = known.exchange;
    borrow->read_only = 0;
    return fromDl(&dl, name, tensor);
  }
  if (slJaxLearn()) {  // jaxlib may be imported after torch and numpy
    return -1;
  }
  if (slIsJaxArray(type)) {
    return slBorrowJax(object, NULL, tensor, borrow) ? refuse(object, name) : 0;
  }
  if (PyObject_HasAttrString((PyObject*)type, "__dlpack__")) {
    return borrowDlpack(object, name, tensor, borrow);
  }
  return refuse(object, name);
}

/// The types that are known by now; 1 when this is none of them.
static int borrowKnown(PyObject* object, PyObject* name, sl_grad_mode* mode, sl_seen* seen,
                       sl_tensor* tensor, sl_borrow* borrow) {
  PyTypeObject* type = Py_TYPE(object);
  if (torch_.tensor && (type == torch_.tensor || type == torch_.parameter)) {
    return borrowTorch(object, name, mode, seen, tensor, borrow);
  }
  if (type == numpy_.array) {
    return borrowNumpy(object, name, tensor, borrow);
  }
  if (slIsJaxArray(type)) {
    return slBorrowJax(object, seen, tensor, borrow) ? refuse(object, name) : 0;
  }
  return 1;
}

int slBorrow(PyObject* object, PyObject* name, sl_grad_mode* mode, sl_seen* seen, sl_tensor* tensor,
             sl_borrow* borrow) {
  borrow->hold = NULL;
  int result = borrowKnown(object, name, mode, seen, tensor, borrow);
  if (result != 1) {
    return result;
  }
  if (!torch_.tensor || !numpy_.array) {
    result = learnFrameworks() ? -1 : borrowKnown(object, name, mode, seen, tensor, borrow);
    if (result != 1) {
      return result;
    }
  }
  PyTypeObject* type = Py_TYPE(object);
  if ((torch_.tensor && PyType_IsSubtype(type, torch_.tensor)) ||
      (numpy_.array && PyType_IsSubtype(type, numpy_.array))) {
    return refuse(object, name);  // a subclass may mean something else by its elements
  }
  return borrowOther(object, name, mode, tensor, borrow);
}
