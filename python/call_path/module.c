// SPDX-License-Identifier: Apache-2.0
// straightline._call: the module and its functions.
#include <dlfcn.h>
#include <string.h>

#include "callable.h"

static void closeLibrary(void* library) { dlclose(library); }

/// dlopens a compiled unit and takes its description `sl_program`.
static PyObject* programFromLibrary(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* path = NULL;
  if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path)) {
    return NULL;
  }
  void* library = dlopen(PyBytes_AsString(path), RTLD_NOW | RTLD_LOCAL);
  Py_DECREF(path);
  if (!library) {
    PyErr_Format(slUserError, "the library cannot be loaded: %s", dlerror());
    return NULL;
  }
  const sl_program_desc* desc = dlsym(library, "sl_program");
  if (!desc) {
    dlclose(library);
    PyErr_SetString(slUserError, "the library has no symbol 'sl_program'");
    return NULL;
  }
  sl_message message;
  message.text[0] = '\0';
  sl_program* program = NULL;
  int32_t status = sl_program_create(desc, closeLibrary, library, &program, &message);
  if (status != SL_OK) {
    dlclose(library);
    slRaiseStatus(status, message.text);
    return NULL;
  }
  return slProgramCapsule(program);
}

/// callable_type(name, base). Types live as long as the process here, and so do their names.
static PyObject* callableType(PyObject* module, PyObject* args) {
  (void)module;
  const char* name = NULL;
  PyObject* base = NULL;
  if (!PyArg_ParseTuple(args, "sO!", &name, &PyType_Type, &base)) {
    return NULL;
  }
  char* kept = PyMem_Malloc(strlen(name) + 1);
  if (!kept) {
    return PyErr_NoMemory();
  }
  return slCallableType(strcpy(kept, name), base);
}

/// symbol(name): the address of a C function of the runtime or of a backend, 0 when there is none.
static PyObject* symbolAddress(PyObject* module, PyObject* args) {
  (void)module;
  const char* name = NULL;
  if (!PyArg_ParseTuple(args, "s", &name)) {
    return NULL;
  }
  return PyLong_FromVoidPtr(sl_symbol(name));
}

static PyMethodDef functions[] = {
    {"artifact_open", slArtifactOpen, METH_VARARGS,
     "artifact_open(path, verify)\n--\n\nA capsule; its structure was checked."},
    {"artifact_entry", slArtifactEntry, METH_VARARGS,
     "artifact_entry(artifact, name)\n--\n\nAddress and bytes of a file of it."},
    {"artifact_choose", slArtifactChoose, METH_VARARGS,
     "artifact_choose(artifact, program, device_type, device)\n--\n\nNumber of the variant that "
     "runs best "
     "here."},
    {"artifact_program", slArtifactProgram, METH_VARARGS,
     "artifact_program(artifact, program, variant, device)\n--\n\nMaps its code; gives a program "
     "capsule."},
    {"artifact_tensor", slArtifactTensor, METH_VARARGS,
     "artifact_tensor(artifact, name)\n--\n\nDtype by safetensors' name, shape, address and "
     "bytes."},
    {"backend_load", slBackendLoad, METH_VARARGS,
     "backend_load(path)\n--\n\nOpens a plug-in; gives its name, file and (kernel, op) of its "
     "kernels."},
    {"own_kernel_open", slOwnKernelOpen, METH_VARARGS,
     "own_kernel_open(path, function, symbol)\n--\n\nOpens a library and makes its function what "
     "emitted text calls by the symbol."},
    {"own_kernel_call", slOwnKernelCall, METH_VARARGS,
     "own_kernel_call(symbol, name, integers, numbers, has_status)\n--\n\nCalls such a function "
     "with its integers and addresses, and its doubles."},
    {"backend_names", slBackendNames, METH_NOARGS,
     "backend_names()\n--\n\nThe backends of this process."},
    {"backend_search", slBackendSearch, METH_NOARGS,
     "backend_search()\n--\n\nOpens the plug-ins that STRAIGHTLINE_BACKEND_PATH names."},
    {"describe", slDescribe, METH_VARARGS,
     "describe(program, sizes)\n--\n\nIts buffers and statements, for these named sizes."},
    {"digest", slDigest, METH_VARARGS,
     "digest(address, bytes)\n--\n\nXXH3-128 of memory, as 32 hexadecimal digits."},
    {"prepared", slWeightsPrepared, METH_O,
     "prepared(weights)\n--\n\nThe prepared data of a set, as bytes a memory space."},
    {"prepared_bytes", slWeightsPreparedBytes, METH_O,
     "prepared_bytes(weights)\n--\n\nBytes of prepared data that a set holds itself."},
    {"callable_type", callableType, METH_VARARGS,
     "callable_type(name, base)\n--\n\nA type like Callable with the methods of a class without "
     "fields."},
    {"cuda_calls", slCudaCalls, METH_NOARGS,
     "cuda_calls()\n--\n\nCalls of NVIDIA's driver by this process so far, by kind."},
    {"cuda_missing", slCudaMissing, METH_NOARGS,
     "cuda_missing()\n--\n\nWhy there is no device; empty when there is one."},
    {"entries", slEntries, METH_O,
     "entries(program)\n--\n\nAll that the program's statements call."},
    {"ffi_addresses", slFfiAddresses, METH_O,
     "ffi_addresses(function)\n--\n\nThat of its sl_ffi_function, of what a kernel of torch "
     "calls with it, and of what a program does."},
    {"ffi_function", slFfiFunction, METH_VARARGS,
     "ffi_function(name, arguments, inputs, results, model_results, callables)\n--\n\nA function "
     "of other systems; arguments are (name, kind, index, count, integer, real, text)."},
    {"ffi_layouts", slFfiLayouts, METH_O,
     "ffi_layouts(program)\n--\n\n(dtype code, bits, sizes, strides, updated) of its inputs and "
     "results, "
     "and (name, min, max, computed) of its named sizes."},
    {"ffi_publish", slFfiPublish, METH_VARARGS,
     "ffi_publish(function, name, callables)\n--\n\nLater calls take these; None: they fail."},
    {"ffi_running", slFfiRunning, METH_O,
     "ffi_running(function)\n--\n\nHow many calls are running."},
    {"ffi_refused", slFfiRefused, METH_O,
     "ffi_refused(function)\n--\n\nHow many calls have come while it was closed."},
    {"ffi_torch_register", slFfiTorchRegister, METH_VARARGS,
     "ffi_torch_register(space, schema, key, kernel)\n--\n\nRegisters an op of torch; gives what "
     "ffi_torch_unregister takes."},
    {"ffi_torch_unregister", slFfiTorchUnregister, METH_O,
     "ffi_torch_unregister(registered)\n--\n\nRemoves the op from torch."},
    {"ffi_tvm_global", slFfiTvmGlobal, METH_VARARGS,
     "ffi_tvm_global(function, name)\n--\n\nMakes it a global function of TVM-FFI."},
    {"graph_nodes", slGraphNodes, METH_O,
     "graph_nodes(program)\n--\n\nNodes of a run as a graph, and \"\"; or -1 and why it cannot be "
     "one."},
    {"graph_parts", slGraphParts, METH_O,
     "graph_parts(program)\n--\n\nHow many graphs a run is launched as, at most."},
    {"op_call", slOpCall, METH_VARARGS,
     "op_call(op, constants, keywords, below, failed, copy, places, results, layouts, "
     "inputs)\n--\n\n"
     "A planned call of an op of torch through Python."},
    {"op_call_functions", slOpCallFunctions, METH_VARARGS,
     "op_call_functions(other, forget)\n--\n\nAddresses of the C functions that run planned calls "
     "by "
     "their id and forget them: calls with a negative number are run by the C function at "
     "`other`."},
    {"override_fast_path", slOverrideFastPath, METH_O,
     "override_fast_path(value)\n--\n\nTrue, False or None for calls of this thread; gives what "
     "held before."},
    {"program_from_library", programFromLibrary, METH_VARARGS,
     "program_from_library(path)\n--\n\nLoads a compiled unit that exports sl_program; gives a "
     "program capsule."},
    {"symbol", symbolAddress, METH_VARARGS,
     "symbol(name)\n--\n\nAddress of an extern \"C\" function of the runtime or of a backend, 0 "
     "when "
     "there is none."},
    {"viewed_parameters", slViewedParameters, METH_O,
     "viewed_parameters(program)\n--\n\nNumbers of the parameters that results are views of."},
    {"weights", slWeightsNew, METH_VARARGS,
     "weights(program, parameters, live=False, prepare=None, shared=None)\n--\n\nBorrows the "
     "parameters' "
     "storage and prepares "
     "them; gives a weights capsule."},
    {"parameters", slWeightsParameters, METH_VARARGS,
     "parameters(weights)\n--\n\nThe tensors of a set, which own the storage that it reads."},
    {"group", slGroup, METH_VARARGS,
     "group(first, others)\n--\n\nCalls of `first` that do not fit its program go to the first of "
     "the others that they fit."},
    {"choose_slots", slChooseSlots, METH_O,
     "choose_slots(choice)\n--\n\nWhat slot() chooses for calls of this thread, or None; gives "
     "what "
     "held before."},
    {"slots", slSlots, METH_VARARGS,
     "slots(callable, programs, place)\n--\n\nWhere slot() has chosen something, `place(choice)` "
     "is the number of the program, from 1, that takes a call; 0: the callable's own."},
    {"specialize", slSpecialize, METH_VARARGS,
     "specialize(callable, programs)\n--\n\nCalls of the very sizes of one of the programs go to "
     "that."},
    {"count_sizes", slCountSizes, METH_VARARGS,
     "count_sizes(callable, enough, told)\n--\n\nCounts the named sizes of calls; "
     "`told({name: size})` is called once they came so often."},
    {"handles", slHandles, METH_O,
     "handles(callable)\n--\n\nAddresses of its program and of its set of weights; they live as "
     "long as it."},
    {"publish", slPublish, METH_VARARGS,
     "publish(callables, weights)\n--\n\nGives each callable its new set, all at once."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "straightline._call",
                                        .m_doc = "The call path.", .m_size = -1,
                                        .m_methods = functions};

PyMODINIT_FUNC PyInit__call(void) {
  if (slErrorsInit() || slBufferTypeInit() || slIoTypesInit() || slEntryTypeInit() ||
      slOpCallsInit()) {
    return NULL;
  }
  PyObject* module = PyModule_Create(&definition);
  PyObject* type = module ? slCallableType("straightline._call.Callable", NULL) : NULL;
  if (!type || PyModule_AddObject(module, "Callable", type)) {
    Py_XDECREF(type);
    Py_CLEAR(module);
  }
  if (module && PyModule_AddIntConstant(module, "ABI_VERSION", SL_ABI_VERSION)) {
    Py_CLEAR(module);
  }
  PyObject* guarded = module ? slGuardedType() : NULL;
  if (!guarded || PyModule_AddObject(module, "Guarded", guarded)) {
    Py_XDECREF(guarded);
    Py_CLEAR(module);
  }
  return module;
}
