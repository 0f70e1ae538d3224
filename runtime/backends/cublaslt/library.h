// SPDX-License-Identifier: Apache-2.0
// cuBLASLt, opened when it is first used; building needs nothing of it. Prototypes and numbers are
// those of its documentation (https://docs.nvidia.com/cuda/cublas, cuBLASLt API); the declarations
// are ours.
#ifndef STRAIGHTLINE_RUNTIME_BACKENDS_CUBLASLT_LIBRARY_H
#define STRAIGHTLINE_RUNTIME_BACKENDS_CUBLASLT_LIBRARY_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace straightline::cublaslt {

struct Handle_;
struct Matmul_;
struct Layout_;
struct Preference_;
using Handle = Handle_*;
using Matmul = Matmul_*;
using Layout = Layout_*;
using Preference = Preference_*;

using Status = int;
inline constexpr Status kSuccess = 0;

/// cudaDataType.
enum Type : int { kFloat32 = 0, kFloat16 = 2, kBfloat16 = 14 };
/// cublasComputeType_t.
enum Compute : int { kIn32 = 68, kInTf32 = 77 };
/// cublasLtMatmulDescAttributes_t.
enum MatmulAttribute : int { kTransposeA = 3, kTransposeB = 4, kEpilogue = 7, kBias = 8 };
/// cublasLtEpilogue_t; those with a bias are the sum of both.
enum Epilogue : uint32_t { kPlain = 1, kRelu = 2, kWithBias = 4, kGelu = 32 };
/// cublasLtMatrixLayoutAttribute_t.
enum LayoutAttribute : int { kBatchCount = 5, kBatchStride = 6 };
/// cublasLtMatmulPreferenceAttributes_t; the alignments of a, b, c, d follow each other.
enum PreferenceAttribute : int { kMostWorkspace = 1, kAlignmentOfA = 5 };

struct Algorithm {
  uint64_t data[8];
};
/// cublasLtMatmulHeuristicResult_t.
struct Heuristic {
  Algorithm algorithm;
  size_t workspace;
  Status state;
  float waves;
  int reserved[4];
};

/// (member, symbol, parameters)
#define SL_CUBLASLT(ENTRY)                                                                        \
  ENTRY(create, cublasLtCreate, (Handle * handle))                                                \
  ENTRY(matmulCreate, cublasLtMatmulDescCreate, (Matmul * made, int compute, int scale))          \
  ENTRY(matmulDestroy, cublasLtMatmulDescDestroy, (Matmul matmul))                                \
  ENTRY(matmulSet, cublasLtMatmulDescSetAttribute,                                                \
        (Matmul matmul, int attribute, const void* value, size_t bytes))                          \
  ENTRY(layoutCreate, cublasLtMatrixLayoutCreate,                                                 \
        (Layout * made, int type, uint64_t rows, uint64_t columns, int64_t leading))              \
  ENTRY(layoutDestroy, cublasLtMatrixLayoutDestroy, (Layout layout))                              \
  ENTRY(layoutSet, cublasLtMatrixLayoutSetAttribute,                                              \
        (Layout layout, int attribute, const void* value, size_t bytes))                          \
  ENTRY(preferenceCreate, cublasLtMatmulPreferenceCreate, (Preference * made))                    \
  ENTRY(preferenceDestroy, cublasLtMatmulPreferenceDestroy, (Preference preference))              \
  ENTRY(preferenceSet, cublasLtMatmulPreferenceSetAttribute,                                      \
        (Preference preference, int attribute, const void* value, size_t bytes))                  \
  ENTRY(heuristic, cublasLtMatmulAlgoGetHeuristic,                                                \
        (Handle handle, Matmul matmul, Layout a, Layout b, Layout c, Layout d,                    \
         Preference preference, int wanted, Heuristic* found, int* count))                        \
  ENTRY(matmul, cublasLtMatmul,                                                                   \
        (Handle handle, Matmul matmul, const void* alpha, const void* a, Layout aLayout,          \
         const void* b, Layout bLayout, const void* beta, const void* c, Layout cLayout, void* d, \
         Layout dLayout, const Algorithm* algorithm, void* workspace, size_t workspaceBytes,      \
         void* stream))

/// The functions.
struct Functions {
#define SL_CUBLASLT_MEMBER(member, symbol, parameters) Status(*member) parameters = nullptr;
  SL_CUBLASLT(SL_CUBLASLT_MEMBER)
#undef SL_CUBLASLT_MEMBER
  std::string error;  ///< why it cannot be used, with the library's name; empty when it can
};

/// Opened by the first call; any thread may call it. Check `error` first.
const Functions& library();

/// The process's handle for a device; several threads may use it at once. Null, with the reason,
/// when there is none. The device's context must be current and the library open.
Handle handleOf(int32_t device, std::string* error);

/// Why the library cannot be opened, without using the device; empty when it can.
std::string whyMissing();
/// Its name and version, or "" where it is missing.
std::string versionText();

/// "cublasLtMatmul fails with 15 (the library has no kernel for this problem)".
std::string words(const char* function, Status status);

}  // namespace straightline::cublaslt

#endif  // STRAIGHTLINE_RUNTIME_BACKENDS_CUBLASLT_LIBRARY_H
