// SPDX-License-Identifier: Apache-2.0
// Artifacts: programs in a file (docs/design/artifacts.md has the format). These functions are what
// loaders of other languages are made of; C programs use straightline_model.h, which is made of
// them too.
//
// An artifact is machine code: load what you would run. Its structure, and the digest of code, are
// checked before anything of it is mapped as code; they tell damage, not intent.
#ifndef STRAIGHTLINE_ABI_ARTIFACT_H
#define STRAIGHTLINE_ABI_ARTIFACT_H

#include "straightline/abi/code.h"
#include "straightline/abi/straightline.h"

#ifdef __cplusplus
extern "C" {
#endif

/// an open file or folder; reference-counted; any thread may use it
typedef struct sl_artifact sl_artifact;

#define SL_ARTIFACT_VERIFY 1u  ///< compare the digest of every file, weights too

/// Opens the artifact at `path`, a zip file or a folder of the same names. Nothing is read but the
/// directory and the manifest, unless flags have SL_ARTIFACT_VERIFY. User error: it is missing,
/// damaged, or of another version; the message names the file and what is wrong.
SL_API int32_t sl_artifact_open(const char* path, uint32_t flags, sl_artifact** out,
                                sl_message* message);
/// An artifact that is linked into this process: a zip in memory, which lives as long as the
/// process, without the code, which is `codes` [count], in the order of programs and variants.
SL_API int32_t sl_artifact_open_linked(const char* name, const void* data, size_t bytes,
                                       const sl_code* const* codes, int32_t count, uint32_t flags,
                                       sl_artifact** out, sl_message* message);
SL_API void sl_artifact_retain(sl_artifact* artifact);
/// Programs and weights of it stay valid without it.
SL_API void sl_artifact_release(sl_artifact* artifact);

/// An entry's contents, borrowed for as long as the artifact lives. User error: there is none.
SL_API int32_t sl_artifact_entry(sl_artifact* artifact, const char* name, const void** data,
                                 size_t* bytes, sl_message* message);

SL_API int32_t sl_artifact_program_count(const sl_artifact* artifact);
/// The variant of program number `program` that runs best here, on the host for `device_type` 1 and
/// on a CUDA device for 2 (DLDeviceType); 0: on whichever it was saved for. Unsupported: none does;
/// the message names what each lacks.
SL_API int32_t sl_artifact_choose(sl_artifact* artifact, int32_t program, int32_t device_type,
                                  int32_t* variant, sl_message* message);
/// The same for device number `device` of its kind, of which there may be code for several
/// architectures. (sl_artifact_choose is for number 0.)
SL_API int32_t sl_artifact_choose_on(sl_artifact* artifact, int32_t program, int32_t device_type,
                                     int32_t device, int32_t* variant, sl_message* message);

/// Maps the code of a variant and makes its program on device number `device`. Its digest is
/// compared before.
SL_API int32_t sl_artifact_program(sl_artifact* artifact, int32_t program, int32_t variant,
                                   int32_t device, sl_program** out, sl_message* message);

/// A tensor of the artifact's weights: dtype is safetensors' name, data row-major and borrowed.
typedef struct sl_stored_tensor {
  uint64_t size;
  const char* name;
  const char* dtype;
  const int64_t* shape;
  int32_t rank;
  int32_t reserved;
  const void* data;
  uint64_t bytes;
} sl_stored_tensor;

/// User error: there is no tensor of that name. `out->size` is set by the caller.
SL_API int32_t sl_artifact_tensor(sl_artifact* artifact, const char* name, sl_stored_tensor* out,
                                  sl_message* message);

/// Prepared data that was saved with a variant, [the program's spaces] addresses and bytes; these
/// are 0 where there is none, and nothing was saved if all are. Borrowed.
SL_API int32_t sl_artifact_prepared(sl_artifact* artifact, int32_t program, int32_t variant,
                                    const sl_program* loaded, const void** data, size_t* bytes,
                                    sl_message* message);

/// XXH3-128 of `data` as 16 bytes, the first the most significant.
SL_API void sl_digest(const void* data, size_t bytes, uint8_t out[16]);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // STRAIGHTLINE_ABI_ARTIFACT_H
