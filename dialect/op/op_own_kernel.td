// SPDX-License-Identifier: Apache-2.0
// An op that a user's own C function computes. Has generated files of its own, as op_special.td.
#ifndef STRAIGHTLINE_OP_OWN_KERNEL_TD
#define STRAIGHTLINE_OP_OWN_KERNEL_TD

include "dialect/op/op_dialect.td"

def Op_OwnKernelOp : Op_Base<"own_kernel", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "an op that a user's own C function computes";
  let description = [{
    `op.own_kernel "mylib::scale"(%x) {symbol = "sl_own_0123456789abcdef_scale", arguments = ["%0", "f:2.0", "@0"], updates = 0}`.
    `arguments` has a text for each argument of the C function (dialect/own_argument.h): `%N` is an input, `@N` a result; `h:%N`
    and `h:@N` are numbers that lie on the host, also in a program for a device. The last
    `updates` operands are updated in place: the first results are their new values, and they are no inputs. `sizes` are
    the named extents that `$N` means. `traits` says what else the function takes and gives (runtime/abi/own_kernel.h):
    "status", "stream"; "device": it is for programs of a device alone; "outside": it is called in each run, between two
    graphs where the run is launched as graphs. With `source`, CUDA C++ text, the function is the kernel `symbol` of that text, run by `blocks` (an argument
    that is an integer or a size) of `threads` threads. With an `image` as well, a cubin for `machine` in base64, the function is
    the kernel `symbol` of that, `source` is what people read of it, `arguments` are its parameters as the driver
    takes them (tensors, `none`, bits as an integer, sizes), tensors begin at multiples of `alignments` bytes (one for each
    parameter), a grid has `more_blocks` in y and z, and a block gets `shared_bytes`; with `waits` it touches memory only after it has waited
    for the kernel before it; with `cooperative` its blocks run all at once, or none does. `note` is a sentence for people about how it was made. An `effectful` one is neither merged with its like, left out, nor moved to prepare.

    - (own_kernel_c1) the name is "namespace::name"
    - (own_kernel_c2) the symbol begins with sl_own_; that of a source is a name of its own
    - (own_kernel_c3) each argument is one that can be read, and names an input, a result or a size that there is
    - (own_kernel_c4) the first results have the types of the operands that are updated
    - (own_kernel_c5) each result is an argument
    - (own_kernel_c7) a source has blocks and 1 to 1024 threads; without a source there are none
    - (own_kernel_c8) an image is one of a source, in base64 and for a machine; its arguments are no text, list or float, there is an
      alignment, a power of two, for each, and y and z have blocks; without an image there is none of these
    - (own_kernel_c9) what lies on the host is an argument of a C function and not updated
    - (own_kernel_c6) a trait is status, stream, device or outside, and a workspace has no negative size
  }];
  let arguments = (ins StrAttr:$name, Variadic<Op_Tensor>:$inputs, StrAttr:$symbol, StrArrayAttr:$arguments,
                       I64Attr:$updates, OptionalAttr<Op_DimsAttr>:$sizes, DefaultValuedAttr<I64Attr, "0">:$workspace,
                       DefaultValuedAttr<StrAttr, "\"\"">:$traits, DefaultValuedAttr<BoolAttr, "false">:$effectful,
                       OptionalAttr<StrAttr>:$source, DefaultValuedAttr<StrAttr, "\"\"">:$blocks,
                       DefaultValuedAttr<I64Attr, "0">:$threads, OptionalAttr<StrAttr>:$image,
                       DefaultValuedAttr<StrAttr, "\"\"">:$machine, OptionalAttr<DenseI64ArrayAttr>:$alignments,
                       OptionalAttr<StrArrayAttr>:$more_blocks, DefaultValuedAttr<I64Attr, "0">:$shared_bytes,
                       DefaultValuedAttr<BoolAttr, "false">:$waits, DefaultValuedAttr<BoolAttr, "false">:$cooperative,
                       DefaultValuedAttr<StrAttr, "\"\"">:$note);
  let results = (outs Variadic<Op_Tensor>:$results);
  let assemblyFormat = "$name `(` $inputs `)` attr-dict `:` functional-type($inputs, $results)";
  let extraClassDeclaration = [{
    /// How many operands are read alone.
    unsigned countRead() { return getInputs().size() - static_cast<unsigned>(getUpdates()); }
  }];
  let hasVerifier = 1;
}

#endif  // STRAIGHTLINE_OP_OWN_KERNEL_TD
