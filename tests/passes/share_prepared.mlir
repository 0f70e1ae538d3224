// Without anything before it: each buffer that launches and copies make gets a digest and a place.
// RUN: straightline-opt %s --share-prepared | FileCheck %s --check-prefixes=CHECK,FIRST
// The same program over what the first one made: nothing is left to prepare but what cannot be told.
// RUN: straightline-opt %s --share-prepared -o %t.first
// RUN: sed -n 's/.*kernel.prepared "p0" offset(0) {kernel.made_by = "\([0-9a-f]*\)".*/\1/p' %t.first > %t.digest
// RUN: sh -c 'straightline-opt %s --share-prepared="before=\"$(cat %t.digest) host 128 32\""' | FileCheck %s --check-prefixes=CHECK,SECOND
// Another space, or another size, is another buffer.
// RUN: sh -c 'straightline-opt %s --share-prepared="before=\"$(cat %t.digest) cuda 128 32\""' | FileCheck %s --check-prefix=OTHER
// RUN: sh -c 'straightline-opt %s --share-prepared="before=\"$(cat %t.digest) host 128 64\""' | FileCheck %s --check-prefix=SIZE
// RUN: not straightline-opt %s --share-prepared="before=abc" 2>&1 | FileCheck %s --check-prefix=BAD
// A second run changes nothing.
// RUN: straightline-opt %t.first --share-prepared -o %t.twice && diff %t.first %t.twice

// OTHER: kernel.prepared "p0" offset(0)
// OTHER: launch @first
// SIZE: kernel.prepared "p0" offset(192)
// SIZE: launch @first
// BAD: share-prepared: 'abc' is not a digest, a space, an offset and bytes

!x = !kernel.buffer<8xf32>
module {
  kernel.program @forward target(<"cpu", "x86-64-v3">) {
    kernel.queue @team backend("cpu")
    %w = kernel.parameter "w" : !x
    // p0 is pack(first(w)), which the program before made at 128.
    // FIRST: kernel.prepared "p0" offset(0) {kernel.made_by = "[[D:[0-9a-f]+]]"}
    // SECOND: kernel.prepared "p0" offset(128) {kernel.made_by = "[[D:[0-9a-f]+]]"}
    %p0 = kernel.prepared "p0" : !x
    // Made by another function: behind all that was there before.
    // FIRST: kernel.prepared "p1" offset(64) {kernel.made_by =
    // SECOND: kernel.prepared "p1" offset(192) {kernel.made_by =
    %p1 = kernel.prepared "p1" : !x
    // A kernel with a workspace makes it: it is the program's own.
    // FIRST: kernel.prepared "p2" offset(128) :
    // SECOND: kernel.prepared "p2" offset(256) :
    %p2 = kernel.prepared "p2" : !x
    // CHECK: kernel.prepare {
    kernel.prepare {
      // Scratch that nothing reads any more goes, too.
      // FIRST: launch @first
      // FIRST: launch @pack(
      // SECOND-NOT: launch @first
      // SECOND-NOT: launch @pack(
      %s = kernel.slot : !x
      kernel.launch @first(%w) outs(%s) on @team : (!x) -> !x
      kernel.launch @pack(%s) outs(%p0) on @team : (!x) -> !x
      // CHECK: launch @other
      kernel.launch @other(%w) outs(%p1) on @team : (!x) -> !x
      // CHECK: launch @with_workspace
      %t = kernel.slot : !x
      kernel.launch @with_workspace(%w) outs(%p2) workspace(%t : !x) on @team : (!x) -> !x
    }
    // CHECK: kernel.run
    kernel.run (%x "x": !x) outs(%y "y": !x, %z "z": !x, %u "u": !x) {
      kernel.launch @other(%p0) outs(%y) on @team : (!x) -> !x
      kernel.launch @other(%p1) outs(%z) on @team : (!x) -> !x
      kernel.launch @other(%p2) outs(%u) on @team : (!x) -> !x
      kernel.return %y, %z, %u : !x, !x, !x
    }
  }
  // Functions that nothing launches any more are gone.
  // FIRST: kernel.func @first
  // FIRST: kernel.func @pack(
  // SECOND-NOT: kernel.func @first
  // SECOND-NOT: kernel.func @pack(
  // CHECK: kernel.func @other
  kernel.func @first(!x) outs(!x) schedule(<"pointwise", shape = {}, tune = {}>) ties([])
  kernel.func @pack(!x) outs(!x) schedule(<"pack_gemm", shape = {}, tune = {}>) ties([])
  kernel.func @other(!x) outs(!x) schedule(<"pointwise", shape = {n = 8}, tune = {}>) ties([])
  kernel.func @with_workspace(!x) outs(!x) workspace(!x) schedule(<"row_reduction", shape = {}, tune = {}>) ties([])
}
