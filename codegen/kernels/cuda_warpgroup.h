// SPDX-License-Identifier: Apache-2.0
// Products by a warpgroup (four neighbouring warps) on Hopper's tensor cores, from tiles in shared
// memory (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"). Only machine code for
// sm_90a has them.
#ifndef STRAIGHTLINE_KERNELS_CUDA_WARPGROUP_H
#define STRAIGHTLINE_KERNELS_CUDA_WARPGROUP_H

#include "straightline/kernels/cuda_tensor_core.h"

namespace sl::warpgroup {

/// Makes what this thread wrote to shared memory visible to the tensor cores. Then threads meet.
SL_INLINE void publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/// Before the first product of a group: orders it behind earlier uses of the same registers.
SL_INLINE void begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Makes a group of the products since the last group.
SL_INLINE void close() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits until at most N groups of products are unfinished.
template <int N>
SL_INLINE void wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/// Describes a tile in shared memory to the tensor cores: lines of 128 bytes, permuted as
/// SwizzledTile does. 8 KiB lie between blocks of 64 elements where lines lie across the reduction.
/// The tile begins at a multiple of 1,024 bytes.
SL_INLINE uint64_t describe(const void* tile) {
  constexpr uint64_t kEightLines = 1024 >> 4, kBlock = 8192 >> 4, kPermuted128 = 1;
  return uint64_t((tensor_core::sharedAddress(tile) & 0x3ffff) >> 4) | kBlock << 16 |
         kEightLines << 32 | kPermuted128 << 62;
}

// ---- barriers in shared memory ----

SL_INLINE void initialize(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(tensor_core::sharedAddress(barrier)),
               "r"(arrivals)
               : "memory");
}
/// Makes initialized barriers visible to the copies that count on them.
SL_INLINE void publishBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
SL_INLINE void arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(tensor_core::sharedAddress(barrier))
               : "memory");
}
/// Arrives, and expects `bytes` of copies.
SL_INLINE void expect(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   tensor_core::sharedAddress(barrier)),
               "r"(bytes)
               : "memory");
}
/// Waits until the barrier's phase of this parity has ended.
SL_INLINE void await(uint64_t* barrier, int parity) {
  asm volatile(
      "{\n\t.reg .pred done;\nagain_%=:\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [%0], "
      "%1;\n\t@!done bra again_%=;\n\t}" ::"r"(tensor_core::sharedAddress(barrier)),
      "r"(parity)
      : "memory");
}

// ---- TMA ----

template <class T>
inline constexpr int kMapType = kSame<T, bfloat16> ? 10
                                : kSame<T, half>   ? 6
                                                   : 11;  // 11: TF32

/// Writes the map of a matrix at `p` to 128 bytes of shared memory: `outer` lines of `inner`
/// elements, `stride` elements apart. Tiles are 128 bytes of a line and `lines` lines. Called by
/// one thread. (PTX ISA, "tensormap.replace"; a map begins as zeros.)
template <class T>
SL_INLINE void describeMatrix(char* map, const T* p, int64_t inner, int64_t outer, int64_t stride,
                              int lines) {
  SL_UNROLL
  for (int i = 0; i < 128; i += 16) {
    *reinterpret_cast<Piece<uint32_t, 4>*>(map + i) = Piece<uint32_t, 4>{};
  }
  const uint32_t at = tensor_core::sharedAddress(map);
  const uint64_t bytes = uint64_t(stride) * sizeof(T);
#define SL_REPLACE(field, type, ...) \
  "tensormap.replace.tile." field ".shared::cta.b1024." type " [%0], " __VA_ARGS__ ";\n\t"
  asm volatile(SL_REPLACE("global_address", "b64", "%1") SL_REPLACE("rank", "b32", "1") SL_REPLACE(
                   "box_dim", "b32", "0, %2") SL_REPLACE("box_dim", "b32", "1, %3")
                   SL_REPLACE("global_dim", "b32", "0, %4") SL_REPLACE("global_dim", "b32", "1, %5")
                       SL_REPLACE("global_stride", "b64", "0, %6")
                           SL_REPLACE("element_stride", "b32", "0, 1") SL_REPLACE(
                               "element_stride", "b32", "1, 1") SL_REPLACE("elemtype", "b32", "%7")
                               SL_REPLACE("interleave_layout", "b32", "0")
                                   SL_REPLACE("swizzle_mode", "b32", "3")
                                       SL_REPLACE("fill_mode", "b32", "0")::"r"(at),
               "l"(p), "r"(128 / int(sizeof(T))), "r"(lines), "r"(int(inner)), "r"(int(outer)),
               "l"(bytes), "n"(kMapType<T>)
               : "memory");
#undef SL_REPLACE
}
/// Copies a map from shared memory to `map`, from where TMA reads it. Called by a whole warp.
SL_INLINE void publishMap(char* map, const char* shared) {
  asm volatile(
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
      "[%0], [%1], 128;" ::"l"(map),
      "r"(tensor_core::sharedAddress(shared))
      : "memory");
}
/// Makes a map that another warp has published visible to this thread's copies.
SL_INLINE void acquireMap(const char* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}
/// Brings a map that acquireMap() made visible to where TMA looks it up. Called by one thread.
SL_INLINE void prefetchMap(const char* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
/// Starts the copy of the tile whose first element is number `inner` of line `outer`.
SL_INLINE void fetchTile(void* to, const char* map, int inner, int outer, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3}], [%4];" ::"r"(tensor_core::sharedAddress(to)),
      "l"(map), "r"(inner), "r"(outer), "r"(tensor_core::sharedAddress(barrier))
      : "memory");
}

// One instruction for each number of sums of a thread. `shape`: columns, steps and types; `turns`:
// text behind the other operands, `...`: the operands that it names.
// clang-format off
#define SL_PRODUCT_32(shape, turns, ...)                                                           \
  asm volatile("{\n\t.reg .pred more;\n\tsetp.ne.b32 more, %34, 0;\n\t"                            \
               "wgmma.mma_async.sync.aligned." shape " "                                           \
               "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, " \
               "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "           \
               "%32, %33, more, 1, 1" turns ";\n\t}"                                               \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),  \
                 "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]),        \
                 "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]),     \
                 "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),     \
                 "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]),     \
                 "+f"(d[31])                                                                       \
               : "l"(a), "l"(b), "r"(more)__VA_ARGS__)
#define SL_PRODUCT_64(shape, turns, ...)                                                           \
  asm volatile("{\n\t.reg .pred more;\n\tsetp.ne.b32 more, %66, 0;\n\t"                            \
               "wgmma.mma_async.sync.aligned." shape " "                                           \
               "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, " \
               "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "  \
               "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "  \
               "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "           \
               "%64, %65, more, 1, 1" turns ";\n\t}"                                               \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),  \
                 "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]),        \
                 "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]),     \
                 "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),     \
                 "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]),     \
                 "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]),     \
                 "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]),     \
                 "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),     \
                 "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]),     \
                 "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]),     \
                 "+f"(d[61]), "+f"(d[62]), "+f"(d[63])                                             \
               : "l"(a), "l"(b), "r"(more)__VA_ARGS__)
#define SL_PRODUCT_96(shape, turns, ...)                                                           \
  asm volatile("{\n\t.reg .pred more;\n\tsetp.ne.b32 more, %98, 0;\n\t"                            \
               "wgmma.mma_async.sync.aligned." shape " "                                           \
               "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, " \
               "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "  \
               "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "  \
               "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, "  \
               "%66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "  \
               "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "           \
               "%96, %97, more, 1, 1" turns ";\n\t}"                                               \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),  \
                 "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]),        \
                 "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]),     \
                 "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),     \
                 "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]),     \
                 "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]),     \
                 "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]),     \
                 "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),     \
                 "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]),     \
                 "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]),     \
                 "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]),     \
                 "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), "+f"(d[72]),     \
                 "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]),     \
                 "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]),     \
                 "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]),     \
                 "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])                   \
               : "l"(a), "l"(b), "r"(more)__VA_ARGS__)
#define SL_PRODUCT_128(shape, turns, ...)                                                          \
  asm volatile("{\n\t.reg .pred more;\n\tsetp.ne.b32 more, %130, 0;\n\t"                           \
               "wgmma.mma_async.sync.aligned." shape " "                                           \
               "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, " \
               "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "  \
               "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "  \
               "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, "  \
               "%66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "  \
               "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, "  \
               "%98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
               "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, "    \
               "%125, %126, %127}, "                                                               \
               "%128, %129, more, 1, 1" turns ";\n\t}"                                             \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),  \
                 "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]),        \
                 "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]),     \
                 "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),     \
                 "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]),     \
                 "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]),     \
                 "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]),     \
                 "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),     \
                 "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]),     \
                 "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]),     \
                 "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]),     \
                 "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), "+f"(d[72]),     \
                 "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]),     \
                 "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]),     \
                 "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]),     \
                 "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), "+f"(d[96]),     \
                 "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]),  \
                 "+f"(d[103]), "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]),             \
                 "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), "+f"(d[112]),             \
                 "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]),             \
                 "+f"(d[118]), "+f"(d[119]), "+f"(d[120]), "+f"(d[121]), "+f"(d[122]),             \
                 "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])              \
               : "l"(a), "l"(b), "r"(more)__VA_ARGS__)
// clang-format on

/// d[64][N] = a[64][D] * b[D][N] (+ d where `more` is not 0), where D elements are 32 bytes. Thread
/// i of the warpgroup has sums of rows i / 32 * 16 + i % 32 / 4 (and 8 further), columns
/// j * 8 + i % 4 * 2 (and the next): d[4 * j + 2 * lower + next]. TA, TB: 1 where lines of the tile
/// lie across the reduction, only for elements of 2 bytes.
template <class T, int TA, int TB, int COUNT>
SL_INLINE void multiply(float (&d)[COUNT], uint64_t a, uint64_t b, int more) {
  constexpr bool kTf32 = kSame<T, float>, kBfloat = kSame<T, bfloat16>;
  if constexpr (COUNT == 32) {
    if constexpr (kTf32) {
      SL_PRODUCT_32("m64n64k8.f32.tf32.tf32", "");
    } else if constexpr (kBfloat) {
      SL_PRODUCT_32("m64n64k16.f32.bf16.bf16", ", %35, %36", , "n"(TA), "n"(TB));
    } else {
      SL_PRODUCT_32("m64n64k16.f32.f16.f16", ", %35, %36", , "n"(TA), "n"(TB));
    }
  } else if constexpr (COUNT == 64) {
    if constexpr (kTf32) {
      SL_PRODUCT_64("m64n128k8.f32.tf32.tf32", "");
    } else if constexpr (kBfloat) {
      SL_PRODUCT_64("m64n128k16.f32.bf16.bf16", ", %67, %68", , "n"(TA), "n"(TB));
    } else {
      SL_PRODUCT_64("m64n128k16.f32.f16.f16", ", %67, %68", , "n"(TA), "n"(TB));
    }
  } else if constexpr (COUNT == 96) {
    if constexpr (kTf32) {
      SL_PRODUCT_96("m64n192k8.f32.tf32.tf32", "");
    } else if constexpr (kBfloat) {
      SL_PRODUCT_96("m64n192k16.f32.bf16.bf16", ", %99, %100", , "n"(TA), "n"(TB));
    } else {
      SL_PRODUCT_96("m64n192k16.f32.f16.f16", ", %99, %100", , "n"(TA), "n"(TB));
    }
  } else if constexpr (COUNT == 128) {
    if constexpr (kTf32) {
      SL_PRODUCT_128("m64n256k8.f32.tf32.tf32", "");
    } else if constexpr (kBfloat) {
      SL_PRODUCT_128("m64n256k16.f32.bf16.bf16", ", %131, %132", , "n"(TA), "n"(TB));
    } else {
      SL_PRODUCT_128("m64n256k16.f32.f16.f16", ", %131, %132", , "n"(TA), "n"(TB));
    }
  } else {
    static_assert(COUNT < 0, "a warpgroup makes 64, 128, 192 or 256 columns");
  }
}
#undef SL_PRODUCT_32
#undef SL_PRODUCT_64
#undef SL_PRODUCT_96
#undef SL_PRODUCT_128

}  // namespace sl::warpgroup

#endif  // STRAIGHTLINE_KERNELS_CUDA_WARPGROUP_H
