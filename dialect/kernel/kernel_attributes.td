// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_DIALECT_KERNEL_ATTRIBUTES_TD
#define STRAIGHTLINE_DIALECT_KERNEL_ATTRIBUTES_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/CommonAttrConstraints.td"
include "dialect/kernel/kernel_dialect.td"

class Kernel_Attr<string name, string attrMnemonic> : AttrDef<Kernel_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Kernel_ExtentAttr : Kernel_Attr<"Extent", "extent"> {
  let summary = "an integer expression over named extents";
  let description = "`#kernel.extent<b * 64>`";
  let parameters = (ins
    ArrayRefParameter<"::mlir::StringAttr">:$names,
    "::mlir::AffineExpr":$expr);
  let hasCustomAssemblyFormat = 1;
  let skipDefaultBuilders = 1;
  let extraClassDeclaration = [{
    /// Builds the attribute; names are pruned and sorted.
    static ExtentAttr get(::mlir::MLIRContext* context, ::llvm::ArrayRef<::mlir::StringAttr> names,
                          ::mlir::AffineExpr expr);
    static ExtentAttr get(::mlir::MLIRContext* context, int64_t value);
    /// The value when it is a number.
    ::std::optional<int64_t> getConstant() const;
  }];
}

def Kernel_ExtentsAttr : TypedArrayAttrBase<Kernel_ExtentAttr, "expressions over named extents">;

def Kernel_ScheduleAttr : Kernel_Attr<"Schedule", "schedule"> {
  let summary = "a kernel family with its shape and tunables";
  let description = [{
    `shape` and `tune` keep their order: that of the fields of the family's structs. Values are i64
    integers, booleans, strings (enumerators), f64 numbers, nested arrays and named-extent
    expressions (`shape` only).

    ```mlir
    #kernel.schedule<"gemm", shape = {m = b, n = 10}, tune = {mr = 6, combine = ["sum", "max"]}>
    ```
  }];
  let parameters = (ins
    "::mlir::StringAttr":$family,
    ArrayRefParameter<"::mlir::NamedAttribute">:$shape,
    ArrayRefParameter<"::mlir::NamedAttribute">:$tune);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Null when there is no such key.
    ::mlir::Attribute getShapeValue(::llvm::StringRef key) const;
    ::mlir::Attribute getTuneValue(::llvm::StringRef key) const;
  }];
}

def Kernel_RowAttr : Kernel_Attr<"Row", "row"> {
  let summary = "the row of an operand that a kernel writes, whose number it reads on the device";
  let description = [{
    Of a kernel.func (kernel.rows): output `output` of its launches is a buffer with `extent` rows, `stride` elements apart; the kernel writes
    the one that input `index`, one i32 or i64, names. With `wrap` = 1 a number below 0 counts from the end. A number outside ends the
    kernel.

    ```mlir
    #kernel.row<output = 0, index = 3, extent = 512, stride = 128, wrap = 0>
    ```
  }];
  let parameters = (ins "int64_t":$output, "int64_t":$index, "int64_t":$extent, "int64_t":$stride, "int64_t":$wrap);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Kernel_TargetAttr : Kernel_Attr<"Target", "target"> {
  let summary = "what the program is planned and compiled for";
  let parameters = (ins
    StringRefParameter<"\"cpu\"">:$backend,
    StringRefParameter<"instruction set or model, e.g. x86-64-v3">:$cpu,
    DefaultValuedParameter<"int64_t", "1">:$threads,
    DefaultValuedParameter<"int64_t", "32">:$vector_bytes,
    DefaultValuedParameter<"int64_t", "32768">:$l1,
    DefaultValuedParameter<"int64_t", "1048576">:$l2,
    DefaultValuedParameter<"int64_t", "0", "1: the CPU sums products of pairs of bfloat16 in float32">:$dot_bf16,
    DefaultValuedParameter<"int64_t", "64", "bytes of operands of multiply-adds that the CPU begins in a cycle">:$fma_bytes);
  let assemblyFormat = [{ `<` $backend `,` $cpu (`,` struct($threads, $vector_bytes, $l1, $l2, $dot_bf16, $fma_bytes)^)? `>` }];
  let extraClassDeclaration = [{
    /// Whether programs run on the caller's team, and not on the queue of a device.
    bool isHost() const { return getBackend() == kHostBackend; }
  }];
}

#endif
