// SPDX-License-Identifier: Apache-2.0
// What the registry's descriptions say of kernels (runtime/abi/kernel.h), for passes to decide by:
// they know no kernel by its name.
#ifndef STRAIGHTLINE_PASSES_KERNEL_FACTS_H
#define STRAIGHTLINE_PASSES_KERNEL_FACTS_H

#include <optional>

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "mlir/IR/Types.h"
#include "straightline/abi/kernel.h"

namespace straightline {

/// Kernels of the registry, in its order.
void forEachKernel(llvm::function_ref<void(const sl_kernel_desc&)> visit);
/// The kernel of that name, or null.
const sl_kernel_desc* findKernel(llvm::StringRef name);
/// The external kernel whose `run` has that symbol, or null.
const sl_kernel_desc* findKernelOfRun(llvm::StringRef symbol);

/// Whether kernels of a device's programs are those of the host, printed for a compiler that the
/// device brings (sl_device_desc.compile).
bool compilesHostKernels(llvm::StringRef device);

/// The backend whose kernels are emitted for programs on `device`: the host's, or a backend with a
/// device of its own.
llvm::StringRef emittingBackend(llvm::StringRef device);

/// Whether the backend has kernels of its own that are emitted, not called.
bool emitsKernels(llvm::StringRef backend);

/// Where the kernels of a backend run: kernel::kHostBackend where it has no device and names none.
llvm::StringRef deviceOf(llvm::StringRef backend);
/// Whether the kernel runs on `device` itself: its backend does, or it is emitted for that device.
bool isMadeFor(const sl_kernel_desc& kernel, llvm::StringRef device);
/// Whether programs on `device` may use the kernel: it is made for that, or runs anywhere.
bool runsOn(const sl_kernel_desc& kernel, llvm::StringRef device);
/// The backends whose kernels programs on `device` may use: first the one whose kernels are
/// emitted, then the others in the order of the registry.
llvm::SmallVector<llvm::StringRef> backendsFor(llvm::StringRef device);

/// The facts of an operand; all zero where the kernel says nothing of it.
sl_operand_facts inputFacts(const sl_kernel_desc& kernel, size_t input);
sl_operand_facts outputFacts(const sl_kernel_desc& kernel, size_t output);

bool isExternal(const sl_kernel_desc& kernel);
/// Whether it is a candidate wherever the program runs.
bool runsAnywhere(const sl_kernel_desc& kernel);
bool has(const sl_kernel_desc& kernel, sl_kernel_properties property);
/// The element type as a bit of sl_type_set; 0: it has none.
uint32_t typeBit(mlir::Type element);
/// Whether the kernel can apply the elementwise op `name` to its results, if these are of this
/// type.
bool takesEpilogue(const sl_kernel_desc& kernel, llvm::StringRef name, mlir::Type element);
/// Whether it applies that op only together with a bias.
bool needsBiasFor(const sl_kernel_desc& kernel, llvm::StringRef name);

/// Whether images that the kernel writes should lie channels last.
bool prefersChannelsLast(const sl_kernel_desc& kernel);
/// Whether the kernel reads images of any strides equally well.
bool passesLayoutsOn(const sl_kernel_desc& kernel);

/// Names of sl_kernel_properties as the option `avoid` writes them: "transforms_inputs",
/// "narrow_inputs", joined by +. Empty text: none. nullopt: there is no such name.
std::optional<uint32_t> propertiesNamed(llvm::StringRef text);
/// Those names, for messages.
llvm::StringRef propertyNames();

}  // namespace straightline

#endif  // STRAIGHTLINE_PASSES_KERNEL_FACTS_H
