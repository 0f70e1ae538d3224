// RUN: straightline-opt %s -split-input-file --group-launches --verify-kernel-level --reuse-in-place --plan-memory --verify-planned-level | FileCheck %s
// RUN: straightline-opt %s -split-input-file --group-launches -o %t && straightline-opt %t -split-input-file --group-launches | diff %t -

// Norms of queries and keys, with a row of values that goes into a cache; then a row of keys. What a launch needs moves with it (the view); of a kernel's
// threads there is one function.
// CHECK-LABEL: kernel.program @token
// CHECK: %[[ROW:.*]] = kernel.view
// CHECK-NEXT: kernel.launch @rows_16_and_rows_8_by_256_and_put(%[[Q:.*]], %[[K:.*]], %[[AT:.*]], %[[ROW]]) outs(%[[NQ:.*]], %[[NK:.*]], %[[VALUES:.*]]) on @stream {kernel.cost_us = 2.{{.*}}, op = "norm, norm, add, index_copy", why = "3 kernels that do not need each other are one launch: rows; few rows; rows"} :
// CHECK-NEXT: kernel.launch @put(%[[AT]], %[[NK]]) outs(%[[KEYS:.*]]) on @stream
// CHECK-NEXT: kernel.launch @read(%[[NQ]], %[[KEYS]], %[[VALUES]])
// CHECK-NEXT: kernel.return
// CHECK: kernel.func @rows_16(
// CHECK-NOT: kernel.func @rows_8(
// CHECK: kernel.func @rows_8_by_256(
// CHECK-NEXT: kernel.blocks = #kernel.extent<1>, {{.*}}kernel.threads = 256
// CHECK: kernel.func @put(
// CHECK: kernel.func @rows_16_and_rows_8_by_256_and_put(
// CHECK-SAME: outs(!kernel.buffer<f32, space "cuda">, !kernel.buffer<f32, space "cuda">, !kernel.buffer<f32, space "cuda"> readwrite)
// CHECK-NEXT: schedule(<"row_reduction", shape = {}, tune = {}>) ties([0 -> 0, 1 -> 1]) attributes {kernel.blocks = #kernel.extent<6>, kernel.early_start = "at_entry", kernel.parts = [@rows_16, @rows_8_by_256, @put], kernel.threads = 256 : i64}
!q = !kernel.buffer<16x128xf32, space "cuda">
!k = !kernel.buffer<8x128xf32, space "cuda">
!c = !kernel.buffer<8x512x128xf32, space "cuda">
!i = !kernel.buffer<1xi64, space "cuda">
!x = !kernel.buffer<f32, space "cuda">
!n = !kernel.buffer<i64, space "cuda">
kernel.program @token target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  %keys = kernel.state "keys" : !c
  %values = kernel.state "values" : !c
  kernel.run (%q "q": !q, %k "k": !k, %v "v": !q, %at "at": !i) outs(%y "y": !q) {
    %nq = kernel.slot : !q
    kernel.launch @rows_16(%q) outs(%nq) on @stream {op = "norm", why = "rows"} : (!q) -> !q
    %nk = kernel.slot : !k
    kernel.launch @rows_8(%k) outs(%nk) on @stream {op = "norm, add", why = "few rows"} : (!k) -> !k
    kernel.launch @put(%at, %nk) outs(%keys) on @stream {op = "index_copy", why = "rows"} : (!i, !k) -> !c
    %row = kernel.view %v offset(0) : !q -> !k
    kernel.launch @put(%at, %row) outs(%values) on @stream {op = "index_copy", why = "rows"} : (!i, !k) -> !c
    kernel.launch @read(%nq, %keys, %values) outs(%y) on @stream : (!q, !c, !c) -> !q
    kernel.return %y : !q
  }
}
kernel.func @rows_16(!x) outs(!x) schedule(<"row_reduction", shape = {}, tune = {threads = 16}>) ties([0 -> 0]) attributes {kernel.blocks = #kernel.extent<1>, kernel.early_start = "at_entry", kernel.threads = 256}
kernel.func @rows_8(!x) outs(!x) schedule(<"row_reduction", shape = {}, tune = {threads = 16}>) ties([0 -> 0]) attributes {kernel.blocks = #kernel.extent<1>, kernel.early_start = "at_entry", kernel.threads = 128}
kernel.func @put(!n, !x) outs(!x readwrite) schedule(<"scatter_rows", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<4>, kernel.early_start = "at_entry", kernel.threads = 256}
kernel.func @read(!x, !x, !x) outs(!x) schedule(<"transpose", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<4>, kernel.threads = 256}

// -----

// The third kernel needs the first, and the others pass it. There are eight parts at most; the ninth goes with the third.
// CHECK-LABEL: kernel.program @passing
// CHECK: kernel.launch @made
// CHECK-NEXT: kernel.launch @f_times_8(%[[X:.*]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]]) outs(%[[A:.*]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) on @stream
// CHECK-NEXT: kernel.launch @f_times_2(%[[A]], %[[X]])
// CHECK-NEXT: kernel.return
!v = !kernel.buffer<64xf32, space "cuda">
!x = !kernel.buffer<f32, space "cuda">
kernel.program @passing target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  kernel.run (%given "given": !v) outs(%a "a": !v, %b "b": !v, %c "c": !v, %d "d": !v, %e "e": !v, %f "f": !v, %g "g": !v, %h "h": !v, %i "i": !v, %j "j": !v) {
    %x = kernel.slot : !v
    kernel.launch @made(%given) outs(%x) on @stream : (!v) -> !v
    kernel.launch @f(%x) outs(%a) on @stream : (!v) -> !v
    kernel.launch @f(%x) outs(%b) on @stream : (!v) -> !v
    kernel.launch @f(%a) outs(%c) on @stream : (!v) -> !v
    kernel.launch @f(%x) outs(%d) on @stream : (!v) -> !v
    kernel.launch @f(%x) outs(%e) on @stream : (!v) -> !v
    kernel.launch @f(%x) outs(%f) on @stream : (!v) -> !v
    kernel.launch @f(%x) outs(%g) on @stream : (!v) -> !v
    kernel.launch @f(%x) outs(%h) on @stream : (!v) -> !v
    kernel.launch @f(%x) outs(%i) on @stream : (!v) -> !v
    kernel.launch @f(%x) outs(%j) on @stream : (!v) -> !v
    kernel.return %a, %b, %c, %d, %e, %f, %g, %h, %i, %j : !v, !v, !v, !v, !v, !v, !v, !v, !v, !v
  }
}
kernel.func @f(!x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<1>, kernel.early_start = "at_entry", kernel.threads = 64}
kernel.func @made(!x) outs(!x) schedule(<"transpose", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<1>, kernel.threads = 64}

// -----

// Kernels that need nothing of the run are one launch, though far apart and with other statements between; one that writes what another
// statement has read stays.
// CHECK-LABEL: kernel.program @free
// CHECK: kernel.launch @f_times_2(%{{.*}}, %{{.*}}) outs(%[[A:.*]], %[[B:.*]]) on @stream
// CHECK-NEXT: kernel.copy %{{.*}} to %[[C:.*]] on @stream
// CHECK-NEXT: kernel.launch @read(%[[A]], %[[C]], %[[S:.*]]) outs(%[[Y:.*]]) on @stream
// CHECK-NEXT: kernel.launch @read(%[[Y]], %[[B]], %[[C]])
// CHECK-NEXT: kernel.launch @f(%{{.*}}) outs(%[[S]])
// CHECK-NEXT: kernel.return
!v = !kernel.buffer<64xf32, space "cuda">
!x = !kernel.buffer<f32, space "cuda">
kernel.program @free target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  %s = kernel.state "s" : !v
  %w = kernel.parameter "w" : !v
  kernel.run (%x "x": !v) outs(%y "y": !v, %z "z": !v) {
    %a = kernel.slot : !v
    %b = kernel.slot : !v
    %c = kernel.slot : !v
    kernel.launch @f(%w) outs(%a) on @stream : (!v) -> !v
    kernel.copy %x to %c on @stream : !v to !v
    kernel.launch @read(%a, %c, %s) outs(%y) on @stream : (!v, !v, !v) -> !v
    kernel.launch @f(%w) outs(%b) on @stream : (!v) -> !v
    kernel.launch @read(%y, %b, %c) outs(%z) on @stream : (!v, !v, !v) -> !v
    kernel.launch @f(%w) outs(%s) on @stream : (!v) -> !v
    kernel.return %y, %z : !v, !v
  }
}
kernel.func @f(!x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<1>, kernel.early_start = "at_entry", kernel.threads = 64}
kernel.func @read(!x, !x, !x) outs(!x) schedule(<"transpose", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<4>, kernel.threads = 64}

// -----

// Kernels of several families, one of which writes a row that it finds: the launch's own schedule is named like its first part.
// CHECK-LABEL: kernel.program @families
// CHECK: kernel.launch @rows_and_row_and_put(%[[X:.*]], %[[X]], %[[AT:.*]], %[[AT]], %[[X]]) outs(%[[Y:.*]], %[[KEYS:.*]], %[[VALUES:.*]]) on @stream
// CHECK-NEXT: kernel.launch @read(%[[Y]], %[[KEYS]], %[[VALUES]])
// CHECK-NEXT: kernel.return
// CHECK: kernel.func @rows_and_row_and_put({{.*}}) outs(!kernel.buffer<f32, space "cuda">, !kernel.buffer<f32, space "cuda"> readwrite, !kernel.buffer<f32, space "cuda"> readwrite)
// CHECK-NEXT: schedule(<"row_reduction", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<3>, kernel.early_start = "at_entry", kernel.parts = [@rows, @row, @put], kernel.threads = 128 : i64}
!v = !kernel.buffer<8x128xf32, space "cuda">
!c = !kernel.buffer<8x512x128xf32, space "cuda">
!i = !kernel.buffer<1xi64, space "cuda">
!x = !kernel.buffer<f32, space "cuda">
!n = !kernel.buffer<i64, space "cuda">
kernel.program @families target(<"cuda", "sm_90">) {
  kernel.queue @team backend("cpu")
  kernel.queue @stream backend("cuda")
  %keys = kernel.state "keys" : !c
  %values = kernel.state "values" : !c
  kernel.run (%x "x": !v, %at "at": !i) outs(%z "z": !v) {
    %y = kernel.slot : !v
    kernel.launch @rows(%x) outs(%y) on @stream : (!v) -> !v
    kernel.launch @row(%x, %at) outs(%keys) on @stream : (!v, !i) -> !c
    kernel.launch @put(%at, %x) outs(%values) on @stream : (!i, !v) -> !c
    kernel.launch @read(%y, %keys, %values) outs(%z) on @stream : (!v, !c, !c) -> !v
    kernel.return %z : !v
  }
}
kernel.func @rows(!x) outs(!x) schedule(<"row_reduction", shape = {}, tune = {threads = 16}>) ties([]) attributes {kernel.blocks = #kernel.extent<1>, kernel.early_start = "at_entry", kernel.threads = 128}
kernel.func @row(!x, !n) outs(!x readwrite) schedule(<"pointwise", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<1>, kernel.early_start = "at_entry", kernel.rows = [#kernel.row<output = 0, index = 1, extent = 512, stride = 128, wrap = 0>], kernel.threads = 128}
kernel.func @put(!n, !x) outs(!x readwrite) schedule(<"scatter_rows", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<1>, kernel.early_start = "at_entry", kernel.threads = 128}
kernel.func @read(!x, !x, !x) outs(!x) schedule(<"transpose", shape = {}, tune = {}>) ties([]) attributes {kernel.blocks = #kernel.extent<4>, kernel.threads = 256}
