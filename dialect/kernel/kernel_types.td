// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_DIALECT_KERNEL_TYPES_TD
#define STRAIGHTLINE_DIALECT_KERNEL_TYPES_TD

include "mlir/IR/AttrTypeBase.td"
include "dialect/kernel/kernel_dialect.td"

class Kernel_Type<string name, string typeMnemonic, list<Trait> traits = []>
    : TypeDef<Kernel_Dialect, name, traits> {
  let mnemonic = typeMnemonic;
}

def Kernel_Buffer : Kernel_Type<"Buffer", "buffer"> {
  let summary = "memory with named extents, strides, a space and a zeroed border";
  let description = [{
    Extents and strides (in elements) are expressions over named extents. Strides are always stored
    and printed only when they differ from the row-major ones. `border` holds, per dim, how many
    zeroed elements stand before and after the extents inside the storage; it is empty when there is
    none. The address of a buffer is that of element 0 of the extents, not of its storage.

    ```mlir
    !kernel.buffer<1x64xf32>
    !kernel.buffer<[b, 64] x f32, strides [128, 1], space "cuda">
    !kernel.buffer<1x8x8x16xf32, border [[0, 0], [1, 1], [1, 1], [0, 0]]>
    ```
  }];
  let parameters = (ins
    ArrayRefParameter<"::mlir::StringAttr">:$names,
    ArrayRefParameter<"::mlir::AffineExpr">:$extents,
    "::mlir::Type":$elementType,
    ArrayRefParameter<"::mlir::AffineExpr">:$strides,
    StringRefParameter<"memory space">:$space,
    ArrayRefParameter<"int64_t">:$border);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let skipDefaultBuilders = 1;
  let extraClassDeclaration = [{
    /// Builds the type; names are pruned and sorted. `names` are those of extents and strides alike.
    static BufferType get(::mlir::MLIRContext* context, ::llvm::ArrayRef<::mlir::StringAttr> names,
                          ::llvm::ArrayRef<::mlir::AffineExpr> extents, ::mlir::Type elementType,
                          ::llvm::ArrayRef<::mlir::AffineExpr> strides,
                          ::llvm::StringRef space = "host", ::llvm::ArrayRef<int64_t> border = {});
    /// Row-major; with a border, rows of the bordered extents.
    static BufferType contiguous(::mlir::MLIRContext* context,
                                 const ::straightline::symbolic::ExprList& extents,
                                 ::mlir::Type elementType, ::llvm::StringRef space = "host",
                                 ::llvm::ArrayRef<int64_t> border = {});
    static BufferType contiguous(::llvm::ArrayRef<int64_t> extents, ::mlir::Type elementType,
                                 ::llvm::StringRef space = "host");
    static BufferType getChecked(
        ::llvm::function_ref<::mlir::InFlightDiagnostic()> emitError,
        ::mlir::MLIRContext* context, ::llvm::ArrayRef<::mlir::StringAttr> names,
        ::llvm::ArrayRef<::mlir::AffineExpr> extents, ::mlir::Type elementType,
        ::llvm::ArrayRef<::mlir::AffineExpr> strides, ::llvm::StringRef space,
        ::llvm::ArrayRef<int64_t> border);

    int64_t getRank() const { return getExtents().size(); }
    bool hasBorder() const { return !getBorder().empty(); }
    /// Row-major strides (of the bordered extents where there is a border).
    bool isContiguous() const;
    /// True when every extent is a number.
    bool isStatic() const;
    /// The element type in the same space, of rank 0: what a kernel.func says about an operand.
    BufferType withoutSizes() const;
    /// Extents as numbers. Precondition: isStatic().
    ::llvm::SmallVector<int64_t> getStaticExtents() const;
    /// Product of the extents, over getNames().
    ::mlir::AffineExpr numElements() const;
    /// Bits of one element in memory divided by 8 (i1 takes one byte).
    int64_t elementBytes() const;
    /// Bytes of the storage, border included, over getNames().
    ::mlir::AffineExpr bytes() const;
    /// Elements between the start of the storage and element 0 (the border before it).
    ::mlir::AffineExpr storageOffsetElems() const;
  }];
}

def Kernel_Handle : Kernel_Type<"Handle", "handle"> {
  let summary = "a library object made by prepare and used by calls";
}

def Kernel_Event : Kernel_Type<"Event", "event"> {
  let summary = "a point in the order of a queue";
}

#endif
