// RUN: straightline-opt %s -split-input-file --place-on-cuda --verify-kernel-level --plan-memory --insert-barriers --verify-planned-level | FileCheck %s

// The grid of a product follows from its sizes and from the tunables that its kernel was chosen with: 4 rows of the weight a
// group of 64 threads, two groups a block; 2 passes over 16 rows of A.

// CHECK-LABEL: kernel.func @gemv
// CHECK: tune = {rows = 4, mr = 8, lanes = 64, threads = 128, unroll = 1}
// CHECK-SAME: kernel.blocks = #kernel.extent<26>, kernel.early_start = "at_entry", kernel.threads = 128
!a = !kernel.buffer<16x256xf32>
!w = !kernel.buffer<100x256xf32>
!c = !kernel.buffer<16x100xf32>
kernel.program @one target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  %w = kernel.parameter "w" : !w
  kernel.run (%x "x": !a) outs(%y "y": !c) {
    kernel.launch @gemv(%x, %w) outs(%y) on @team {op = "linear"} : (!a, !w) -> !c
    kernel.return %y : !c
  }
}
kernel.func @gemv(!a, !w) outs(!c)
    schedule(<"gemv", shape = {m = 16, n = 100, k = 256, lda = 256, ldw = 256, ldc = 100, epilogueStride = []},
              tune = {rows = 4, mr = 8, lanes = 64, threads = 128, unroll = 1}>) ties([])
    lambda epilogue(%acc: f32) {
  kernel.yield %acc : f32
}

// -----

// Four blocks share each tile: 2 tiles down for b rows of 64, 2 across.

// CHECK-LABEL: kernel.func @matmul
// CHECK: splits = 4}
// CHECK-SAME: kernel.blocks = #kernel.extent<(b + 63) floordiv 64 * 8>, kernel.cluster = 4 : i64, kernel.threads = 128
!a = !kernel.buffer<[b, 4096] x f32>
!w = !kernel.buffer<100x4096xf32>
!c = !kernel.buffer<[b, 100] x f32>
kernel.program @two target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.extent @b min(1) max(1000)
  %w = kernel.parameter "w" : !w
  kernel.run (%x "x": !a) outs(%y "y": !c) {
    kernel.launch @matmul(%x, %w) outs(%y) on @team {op = "linear"} : (!a, !w) -> !c
    kernel.return %y : !c
  }
}
kernel.func @matmul(!a, !w) outs(!c)
    schedule(<"matmul", shape = {batch = [1, 1, 1], m = b, n = 100, k = 4096, aRow = 4096, aCol = 1, bRow = 1, bCol = 4096, cRow = 100, epilogueStride = []},
              tune = {mr = 8, nr = 4, rows = 64, columns = 64, threads = 128, splits = 4}>) ties([])
    lambda epilogue(%acc: f32) {
  kernel.yield %acc : f32
}

// -----

// Before sm_90 there are no clusters: each tile is one block's.

// CHECK-LABEL: kernel.func @matmul
// CHECK: splits = 1}
// CHECK-SAME: kernel.blocks = #kernel.extent<4>
// CHECK-NOT: kernel.cluster
!a = !kernel.buffer<100x4096xf32>
!c = !kernel.buffer<100x100xf32>
kernel.program @three target(<"cuda", "sm_80">) {
  kernel.queue @team backend("cpu")
  %w = kernel.parameter "w" : !a
  kernel.run (%x "x": !a) outs(%y "y": !c) {
    kernel.launch @matmul(%x, %w) outs(%y) on @team {op = "linear"} : (!a, !a) -> !c
    kernel.return %y : !c
  }
}
kernel.func @matmul(!a, !a) outs(!c)
    schedule(<"matmul", shape = {batch = [1, 1, 1], m = 100, n = 100, k = 4096, aRow = 4096, aCol = 1, bRow = 1, bCol = 4096, cRow = 100, epilogueStride = []},
              tune = {mr = 8, nr = 4, rows = 64, columns = 64, threads = 128, splits = 4}>) ties([])
    lambda epilogue(%acc: f32) {
  kernel.yield %acc : f32
}

// -----

// 16 heads of queries share 8 of keys: 2 rows for each query; 8 blocks share the keys of one head.

// CHECK-LABEL: kernel.func @attention
// CHECK: splits = 8}
// CHECK-SAME: kernel.blocks = #kernel.extent<(s * 2 + 15) floordiv 16 * 64>, kernel.cluster = 8 : i64, kernel.threads = 128
!q = !kernel.buffer<[1, 16, s, 128] x f32>
!k = !kernel.buffer<1x8x512x128xf32>
kernel.program @four target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.extent @s min(1) max(1000)
  kernel.run (%q "q": !q, %k "k": !k, %v "v": !k) outs(%y "y": !q) {
    kernel.launch @attention(%q, %k, %v) outs(%y) on @team {op = "attention"} : (!q, !k, !k) -> !q
    kernel.return %y : !q
  }
}
kernel.func @attention(!q, !k, !k) outs(!q)
    schedule(<"attention", shape = {b = 1, h = 16, hk = 8, s = s, t = 512, d = 128, scale = 0.0 : f64, qStride = [s * 2048, s * 128, 128], kStride = [524288, 65536, 128],
                                    vStride = [524288, 65536, 128], outStride = [s * 2048, s * 128, 128], maskStride = [0, 0, 0, 0], epilogueStride = []},
              tune = {rows = 16, keys = 32, mask = 0, causal = 0, depth = 128, threads = 128, splits = 8}>) ties([])
    lambda epilogue(%acc: f32) {
  kernel.yield %acc : f32
}
