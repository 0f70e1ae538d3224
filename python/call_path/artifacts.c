// SPDX-License-Identifier: Apache-2.0
// Artifacts (straightline/abi/artifact.h) for Python: contents are addresses, which stay valid for
// as long as the capsule of the artifact lives.
#include "call_path.h"

#define SL_ARTIFACT_CAPSULE "straightline.artifact"

static void releaseProgram(PyObject* capsule) {
  sl_program_release(PyCapsule_GetPointer(capsule, SL_PROGRAM_CAPSULE));
}

PyObject* slProgramCapsule(sl_program* program) {
  PyObject* capsule = PyCapsule_New(program, SL_PROGRAM_CAPSULE, releaseProgram);
  if (!capsule) {
    sl_program_release(program);
  }
  return capsule;
}

static void releaseArtifact(PyObject* capsule) {
  sl_artifact_release(PyCapsule_GetPointer(capsule, SL_ARTIFACT_CAPSULE));
}

static PyObject* raiseStatus(int32_t status, const sl_message* message) {
  slRaiseStatus(status, message->text);
  return NULL;
}

PyObject* slArtifactOpen(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* path = NULL;
  int verify = 0;
  if (!PyArg_ParseTuple(args, "O&p", PyUnicode_FSConverter, &path, &verify)) {
    return NULL;
  }
  sl_message message;
  sl_artifact* artifact = NULL;
  int32_t status;
  Py_BEGIN_ALLOW_THREADS status = sl_artifact_open(
      PyBytes_AsString(path), verify ? SL_ARTIFACT_VERIFY : 0, &artifact, &message);
  Py_END_ALLOW_THREADS Py_DECREF(path);
  if (status != SL_OK) {
    return raiseStatus(status, &message);
  }
  PyObject* capsule = PyCapsule_New(artifact, SL_ARTIFACT_CAPSULE, releaseArtifact);
  if (!capsule) {
    sl_artifact_release(artifact);
  }
  return capsule;
}

/// For "O&" of PyArg_ParseTuple: the artifact of a capsule.
static int artifactOf(PyObject* capsule, void* artifact) {
  *(sl_artifact**)artifact = PyCapsule_GetPointer(capsule, SL_ARTIFACT_CAPSULE);
  return *(sl_artifact**)artifact != NULL;
}

PyObject* slArtifactEntry(PyObject* module, PyObject* args) {
  (void)module;
  sl_artifact* artifact = NULL;
  const char* name = NULL;
  if (!PyArg_ParseTuple(args, "O&s", artifactOf, &artifact, &name)) {
    return NULL;
  }
  sl_message message;
  const void* data = NULL;
  size_t bytes = 0;
  const int32_t status = sl_artifact_entry(artifact, name, &data, &bytes, &message);
  if (status != SL_OK) {
    return raiseStatus(status, &message);
  }
  return Py_BuildValue("(Nn)", PyLong_FromVoidPtr((void*)data), (Py_ssize_t)bytes);
}

PyObject* slArtifactChoose(PyObject* module, PyObject* args) {
  (void)module;
  sl_artifact* artifact = NULL;
  int program = 0;
  int device_type = 0;
  int device = 0;
  if (!PyArg_ParseTuple(args, "O&iii", artifactOf, &artifact, &program, &device_type, &device)) {
    return NULL;
  }
  sl_message message;
  int32_t variant = 0;
  const int32_t status =
      sl_artifact_choose_on(artifact, program, device_type, device, &variant, &message);
  return status == SL_OK ? PyLong_FromLong(variant) : raiseStatus(status, &message);
}

PyObject* slArtifactProgram(PyObject* module, PyObject* args) {
  (void)module;
  sl_artifact* artifact = NULL;
  int number = 0;
  int variant = 0;
  int device = 0;
  if (!PyArg_ParseTuple(args, "O&iii", artifactOf, &artifact, &number, &variant, &device)) {
    return NULL;
  }
  sl_message message;
  sl_program* program = NULL;
  int32_t status;
  Py_BEGIN_ALLOW_THREADS status =
      sl_artifact_program(artifact, number, variant, device, &program, &message);
  Py_END_ALLOW_THREADS return status == SL_OK ? slProgramCapsule(program)
                                              : raiseStatus(status, &message);
}

PyObject* slArtifactTensor(PyObject* module, PyObject* args) {
  (void)module;
  sl_artifact* artifact = NULL;
  const char* name = NULL;
  if (!PyArg_ParseTuple(args, "O&s", artifactOf, &artifact, &name)) {
    return NULL;
  }
  sl_message message;
  sl_stored_tensor tensor = {.size = sizeof(tensor)};
  const int32_t status = sl_artifact_tensor(artifact, name, &tensor, &message);
  if (status != SL_OK) {
    return raiseStatus(status, &message);
  }
  PyObject* shape = PyTuple_New(tensor.rank);
  for (int32_t d = 0; shape && d < tensor.rank; ++d) {
    PyTuple_SetItem(shape, d, PyLong_FromLongLong(tensor.shape[d]));
  }
  return shape ? Py_BuildValue("(sNNn)", tensor.dtype, shape,
                               PyLong_FromVoidPtr((void*)tensor.data), (Py_ssize_t)tensor.bytes)
               : NULL;
}

PyObject* slViewedParameters(PyObject* module, PyObject* capsule) {
  (void)module;
  const sl_program* program = PyCapsule_GetPointer(capsule, SL_PROGRAM_CAPSULE);
  if (!program) {
    return NULL;
  }
  const sl_program_desc* desc = sl_program_description(program);
  PyObject* list = PyList_New(0);
  for (int32_t i = 0; list && i < desc->result_count; ++i) {
    const sl_buffer* root = &desc->buffers[desc->results[i].root];
    if (root->role != SL_ROLE_PARAMETER) {
      continue;
    }
    PyObject* number = PyLong_FromLong(root->index);
    if (!number || PyList_Append(list, number)) {
      Py_CLEAR(list);
    }
    Py_XDECREF(number);
  }
  return list;
}

int slPreparedOf(PyObject* prepared, const sl_program* program, const void** data, size_t* bytes) {
  sl_artifact* artifact = NULL;
  int number = 0;
  int variant = 0;
  if (!PyArg_ParseTuple(prepared, "O&ii", artifactOf, &artifact, &number, &variant)) {
    return -1;
  }
  sl_message message;
  const int32_t status =
      sl_artifact_prepared(artifact, number, variant, program, data, bytes, &message);
  if (status != SL_OK) {
    slRaiseStatus(status, message.text);
    return -1;
  }
  return 0;
}

PyObject* slDigest(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* address = NULL;
  Py_ssize_t bytes = 0;
  if (!PyArg_ParseTuple(args, "On", &address, &bytes)) {
    return NULL;
  }
  const void* data = PyLong_AsVoidPtr(address);
  if (PyErr_Occurred()) {
    return NULL;
  }
  uint8_t digest[16];
  Py_BEGIN_ALLOW_THREADS sl_digest(data, (size_t)bytes, digest);
  Py_END_ALLOW_THREADS char text[33];
  for (int i = 0; i < 16; ++i) {
    text[2 * i] = "0123456789abcdef"[digest[i] >> 4];
    text[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
  }
  return PyUnicode_FromStringAndSize(text, 32);
}
