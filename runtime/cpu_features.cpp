// SPDX-License-Identifier: Apache-2.0
// What the processor can do, for code that was compiled for a CPU elsewhere.
#include <cstring>

#include "straightline/abi/straightline.h"

namespace {

struct Feature {
  const char* name;  ///< LLVM's
  bool (*here)();
};

// The compiler's builtin reads CPUID and what the operating system keeps; its names are LLVM's. It
// wants a literal.
#define SL_FEATURE(name) {name, [] { return __builtin_cpu_supports(name) != 0; }}
const Feature kFeatures[] = {
#if defined(__x86_64__)
    SL_FEATURE("sse"),          SL_FEATURE("sse2"),       SL_FEATURE("sse3"),
    SL_FEATURE("ssse3"),        SL_FEATURE("sse4.1"),     SL_FEATURE("sse4.2"),
    SL_FEATURE("sse4a"),        SL_FEATURE("popcnt"),     SL_FEATURE("avx"),
    SL_FEATURE("avx2"),         SL_FEATURE("bmi"),        SL_FEATURE("bmi2"),
    SL_FEATURE("f16c"),         SL_FEATURE("fma"),        SL_FEATURE("fma4"),
    SL_FEATURE("xop"),          SL_FEATURE("tbm"),        SL_FEATURE("lzcnt"),
    SL_FEATURE("movbe"),        SL_FEATURE("gfni"),       SL_FEATURE("avx512f"),
    SL_FEATURE("avx512bw"),     SL_FEATURE("avx512cd"),   SL_FEATURE("avx512dq"),
    SL_FEATURE("avx512vl"),     SL_FEATURE("avx512vbmi"), SL_FEATURE("avx512vbmi2"),
    SL_FEATURE("avx512ifma"),   SL_FEATURE("avx512vnni"), SL_FEATURE("avx512bf16"),
    SL_FEATURE("avx512bitalg"), SL_FEATURE("avx512fp16"), SL_FEATURE("avx512vpopcntdq"),
    SL_FEATURE("avxvnni"),
#endif
};
#undef SL_FEATURE

}  // namespace

int32_t sl_cpu_has(const char* feature) {
  for (const Feature& known : kFeatures) {
    if (std::strcmp(known.name, feature) == 0) {
      return known.here() ? 1 : 0;
    }
  }
  return -1;
}
