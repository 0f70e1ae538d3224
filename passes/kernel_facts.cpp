// SPDX-License-Identifier: Apache-2.0
#include "passes/kernel_facts.h"

#include <algorithm>

#include "dialect/kernel/kernel_dialect.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/IR/BuiltinTypes.h"
#include "straightline/abi/straightline.h"

namespace straightline {

void forEachKernel(llvm::function_ref<void(const sl_kernel_desc&)> visit) {
  for (int32_t backend = 0; backend < sl_backend_count(); ++backend) {
    const sl_backend_desc* desc = sl_backend_at(backend);
    for (int32_t i = 0; i < desc->kernel_count; ++i) {
      visit(desc->kernels[i]);
    }
  }
}

const sl_kernel_desc* findKernel(llvm::StringRef name) {
  const sl_kernel_desc* found = nullptr;
  forEachKernel(
      [&](const sl_kernel_desc& kernel) { found = name == kernel.name ? &kernel : found; });
  return found;
}

const sl_kernel_desc* findKernelOfRun(llvm::StringRef symbol) {
  const sl_kernel_desc* found = nullptr;
  forEachKernel([&](const sl_kernel_desc& kernel) {
    found = !found && kernel.run_symbol && symbol == kernel.run_symbol ? &kernel : found;
  });
  return found;
}

namespace {

const sl_backend_desc* findBackend(llvm::StringRef name) {
  for (int32_t i = 0; i < sl_backend_count(); ++i) {
    if (name == sl_backend_at(i)->name) {
      return sl_backend_at(i);
    }
  }
  return nullptr;
}

}  // namespace

bool compilesHostKernels(llvm::StringRef device) {
  const sl_backend_desc* backend = findBackend(device);
  return backend && backend->device && backend->device->compile;
}

llvm::StringRef emittingBackend(llvm::StringRef device) {
  if (device != kernel::kHostBackend && !compilesHostKernels(device)) {
    return device;
  }
  for (int32_t i = 0; i < sl_backend_count(); ++i) {
    const sl_backend_desc* backend = sl_backend_at(i);
    if (!backend->device && !backend->runs_on && backend->kernel_count > 0 &&
        !isExternal(backend->kernels[0]) && backend->kernels[0].family[0] != '\0') {
      return backend->name;
    }
  }
  return device;
}

bool emitsKernels(llvm::StringRef backend) {
  bool found = false;
  forEachKernel([&](const sl_kernel_desc& kernel) {
    found |= backend == kernel.backend && !isExternal(kernel) && kernel.family[0] != '\0';
  });
  return found;
}

namespace {

llvm::StringRef deviceOfBackend(const sl_backend_desc& backend) {
  return backend.runs_on  ? backend.runs_on
         : backend.device ? backend.name
                          : llvm::StringRef(kernel::kHostBackend);
}

/// Whether every kernel of the backend runs wherever the program does.
bool allRunAnywhere(const sl_backend_desc& backend) {
  return backend.kernel_count > 0 &&
         llvm::all_of(llvm::ArrayRef(backend.kernels, static_cast<size_t>(backend.kernel_count)),
                      [](const sl_kernel_desc& kernel) { return runsAnywhere(kernel); });
}

}  // namespace

llvm::StringRef deviceOf(llvm::StringRef backend) {
  const sl_backend_desc* found = findBackend(backend);
  return found ? deviceOfBackend(*found) : llvm::StringRef(kernel::kHostBackend);
}

bool isMadeFor(const sl_kernel_desc& kernel, llvm::StringRef device) {
  return deviceOf(kernel.backend) == device ||
         (!isExternal(kernel) && kernel.backend == emittingBackend(device));
}

bool runsOn(const sl_kernel_desc& kernel, llvm::StringRef device) {
  return isMadeFor(kernel, device) || runsAnywhere(kernel);
}

llvm::SmallVector<llvm::StringRef> backendsFor(llvm::StringRef device) {
  llvm::SmallVector<llvm::StringRef> names = {emittingBackend(device)};
  for (int32_t i = 0; i < sl_backend_count(); ++i) {
    const sl_backend_desc& backend = *sl_backend_at(i);
    if (names.front() != backend.name &&
        (deviceOfBackend(backend) == device || allRunAnywhere(backend))) {
      names.push_back(backend.name);
    }
  }
  return names;
}

namespace {

llvm::ArrayRef<sl_operand_facts> factsOf(const sl_kernel_desc& kernel) {
  return {kernel.operands, static_cast<size_t>(std::max(kernel.operand_count, 0))};
}

const sl_epilogue* findEpilogue(const sl_kernel_desc& kernel, llvm::StringRef name) {
  for (int32_t i = 0; i < kernel.epilogue_count; ++i) {
    if (name == kernel.epilogues[i].name) {
      return &kernel.epilogues[i];
    }
  }
  return nullptr;
}

struct PropertyName {
  llvm::StringLiteral name;
  sl_kernel_properties property;
};
constexpr PropertyName kPropertyNames[] = {{"transforms_inputs", SL_KERNEL_TRANSFORMS_INPUTS},
                                           {"narrow_inputs", SL_KERNEL_NARROW_INPUTS}};

}  // namespace

sl_operand_facts inputFacts(const sl_kernel_desc& kernel, size_t input) {
  const auto facts = factsOf(kernel).take_until(
      [](const sl_operand_facts& operand) { return (operand.flags & SL_OPERAND_OUTPUT) != 0; });
  return input < facts.size() ? facts[input] : sl_operand_facts{};
}

sl_operand_facts outputFacts(const sl_kernel_desc& kernel, size_t output) {
  const auto facts = factsOf(kernel).drop_until(
      [](const sl_operand_facts& operand) { return (operand.flags & SL_OPERAND_OUTPUT) != 0; });
  return output < facts.size() ? facts[output] : sl_operand_facts{};
}

bool isExternal(const sl_kernel_desc& kernel) { return kernel.run_symbol != nullptr; }

bool runsAnywhere(const sl_kernel_desc& kernel) { return kernel.any_device != 0; }

bool has(const sl_kernel_desc& kernel, sl_kernel_properties property) {
  return (kernel.properties & property) != 0;
}

uint32_t typeBit(mlir::Type element) {
  const auto integer = llvm::dyn_cast<mlir::IntegerType>(element);
  if (!integer) {
    return element.isF16()    ? SL_TYPE_F16
           : element.isBF16() ? SL_TYPE_BF16
           : element.isF32()  ? SL_TYPE_F32
           : element.isF64()  ? SL_TYPE_F64
                              : 0;
  }
  if (integer.isUnsigned() && integer.getWidth() > 8) {
    return 0;  // no kernel says that it takes them
  }
  switch (integer.getWidth()) {
    case 1:
      return SL_TYPE_BOOL;
    case 8:
      return integer.isUnsigned() ? SL_TYPE_U8 : SL_TYPE_I8;
    case 16:
      return SL_TYPE_I16;
    case 32:
      return SL_TYPE_I32;
    case 64:
      return SL_TYPE_I64;
    default:
      return 0;
  }
}

bool takesEpilogue(const sl_kernel_desc& kernel, llvm::StringRef name, mlir::Type element) {
  const sl_epilogue* epilogue = findEpilogue(kernel, name);
  return epilogue && (epilogue->types == 0 || (epilogue->types & typeBit(element)) != 0);
}

bool needsBiasFor(const sl_kernel_desc& kernel, llvm::StringRef name) {
  const sl_epilogue* epilogue = findEpilogue(kernel, name);
  return epilogue && (epilogue->flags & SL_EPILOGUE_WITH_BIAS) != 0;
}

bool prefersChannelsLast(const sl_kernel_desc& kernel) {
  return (outputFacts(kernel, 0).preferred & SL_LAYOUT_CHANNELS_LAST) != 0;
}

bool passesLayoutsOn(const sl_kernel_desc& kernel) {
  const sl_operand_facts image = inputFacts(kernel, 0);
  return (image.layouts & SL_LAYOUT_STRIDED) != 0 && image.preferred == 0;
}

std::optional<uint32_t> propertiesNamed(llvm::StringRef text) {
  uint32_t properties = 0;
  llvm::SmallVector<llvm::StringRef> names;
  text.split(names, '+', -1, false);
  for (llvm::StringRef name : names) {
    const auto* found = llvm::find_if(
        kPropertyNames, [&](const PropertyName& known) { return known.name == name; });
    if (found == std::end(kPropertyNames)) {
      return std::nullopt;
    }
    properties |= found->property;
  }
  return properties;
}

llvm::StringRef propertyNames() { return "transforms_inputs and narrow_inputs"; }

}  // namespace straightline
