// SPDX-License-Identifier: Apache-2.0
// Kernels of prepare, or copies of run, that differ in numbers of their shapes alone become one,
// which takes these numbers at run time.
//
//   kernel.func @scale_64x3(..) schedule(<"pointwise", shape = {extent = [64, 3], ..}, ..>)
//   kernel.func @scale_32x3(..) schedule(<"pointwise", shape = {extent = [32, 3], ..}, ..>)
//     ->  kernel.func @scale_sized(..) schedule(<"pointwise", shape = {extent = [n0, 3], ..}, ..>)
//         kernel.launch @scale_sized(..) outs(..) sizes([64]) ...
//
// Clang takes tens of milliseconds to compile a kernel, and prepare runs once: constant extents
// would save less time there than the compilation of one more function costs. In run they are worth
// it, but for copies: a loop that was unrolled, with a size that grows, has one for each round.
#include <map>
#include <optional>

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "passes/passes.h"

namespace straightline::passes {

#define GEN_PASS_DEF_SHAREKERNELS
#include "passes/passes.h.inc"

namespace {

using mlir::Attribute;
using mlir::Operation;

/// A function of run-time sizes takes clang up to three times as long as one of constants.
constexpr size_t kLeastShared = 3, kLeastCopiesShared = 16;

/// Calls `each` for the numbers in `value` and what it holds, in order; gives `value` with what
/// `each` returns in their places.
Attribute mapNumbers(Attribute value, llvm::function_ref<Attribute(mlir::IntegerAttr)> each) {
  if (auto array = llvm::dyn_cast<mlir::ArrayAttr>(value)) {
    return mlir::ArrayAttr::get(value.getContext(), llvm::map_to_vector(array, [&](Attribute item) {
                                  return mapNumbers(item, each);
                                }));
  }
  auto number = llvm::dyn_cast<mlir::IntegerAttr>(value);
  return number && number.getType().isInteger(64) ? each(number) : value;
}

kernel::ScheduleAttr mapShape(kernel::ScheduleAttr schedule,
                              llvm::function_ref<Attribute(mlir::IntegerAttr)> each) {
  llvm::SmallVector<mlir::NamedAttribute> shape;
  for (mlir::NamedAttribute entry : schedule.getShape()) {
    shape.emplace_back(entry.getName(), mapNumbers(entry.getValue(), each));
  }
  return kernel::ScheduleAttr::get(schedule.getContext(), schedule.getFamily(), shape,
                                   schedule.getTune());
}

llvm::SmallVector<int64_t> numbersOf(kernel::FuncOp function) {
  llvm::SmallVector<int64_t> numbers;
  mapShape(function.getSchedule(), [&](mlir::IntegerAttr number) -> Attribute {
    numbers.push_back(number.getInt());
    return number;
  });
  return numbers;
}

/// The function's text without its name and the numbers of its shape.
std::string keyOf(kernel::FuncOp function) {
  const kernel::ScheduleAttr schedule = function.getSchedule();
  const mlir::StringAttr name = function.getSymNameAttr();
  mlir::Builder builder(function.getContext());
  function.setScheduleAttr(mapShape(
      schedule, [&](mlir::IntegerAttr) -> Attribute { return builder.getI64IntegerAttr(0); }));
  function.setSymName("kernel");
  std::string key;
  llvm::raw_string_ostream(key) << function;
  function.setScheduleAttr(schedule);
  function.setSymNameAttr(name);
  return key;
}

/// The common beginning of the functions' names, without the beginning of a size: "scale_64x3" and
/// "scale_32x3" give "scale". The family where they have nothing in common.
std::string commonName(llvm::ArrayRef<kernel::FuncOp> functions) {
  kernel::FuncOp first = functions.front();
  llvm::StringRef common = first.getSymName();
  for (kernel::FuncOp function : functions) {
    const llvm::StringRef name = function.getSymName();
    size_t length = 0;
    while (length < std::min(common.size(), name.size()) && common[length] == name[length]) {
      ++length;
    }
    common = common.take_front(length);
  }
  const size_t underscore = common.rfind('_');
  if (underscore != llvm::StringRef::npos &&
      llvm::all_of(common.drop_front(underscore + 1),
                   [](char c) { return llvm::isDigit(c) || c == 'x'; })) {
    common = common.take_front(underscore);
  }
  common = common.rtrim('_');
  return (common.empty() ? first.getSchedule().getFamily().getValue() : common).str();
}

using Launches = llvm::MapVector<Operation*, llvm::SmallVector<kernel::LaunchOp>>;

/// One element for each element, as it is.
bool isCopy(kernel::FuncOp function) {
  return function.getSchedule().getFamily() == "pointwise" &&
         llvm::all_of(function.getBodies(),
                      [](mlir::Region& body) { return llvm::hasSingleElement(body.front()); });
}

struct ShareKernelsPass : impl::ShareKernelsBase<ShareKernelsPass> {
  using ShareKernelsBase::ShareKernelsBase;

  void runOnOperation() override {
    Launches ofPhase;  // by function, in the order of first use
    llvm::DenseSet<Operation*> ofOther;
    getOperation().walk([&](kernel::LaunchOp launch) {
      if ((launch->getParentOfType<kernel::PrepareOp>() == nullptr) == copies) {
        ofPhase[launch.getEntryOp()].push_back(launch);
      } else {
        ofOther.insert(launch.getEntryOp());
      }
    });
    llvm::MapVector<mlir::StringAttr, llvm::SmallVector<kernel::FuncOp>> groups;  // by keyOf
    for (const auto& [entry, _] : ofPhase) {
      auto function = llvm::cast<kernel::FuncOp>(entry);
      // A device's grid is counted from named extents; names that are there are the program's.
      if (!ofOther.contains(entry) && !kernel::runsOnDevice(entry) &&
          function.getScalarNames().empty() && (!copies || isCopy(function))) {
        groups[mlir::StringAttr::get(&getContext(), keyOf(function))].push_back(function);
      }
    }
    mlir::SymbolTable symbols(getOperation());
    for (const auto& [_, functions] : groups) {
      if (functions.size() >= (copies ? kLeastCopiesShared : kLeastShared)) {
        merge(functions, ofPhase, symbols);
      }
    }
  }

  void merge(llvm::ArrayRef<kernel::FuncOp> functions, Launches& launches,
             mlir::SymbolTable& symbols) {
    mlir::MLIRContext* context = &getContext();
    const std::string name = commonName(functions) + "_sized";
    const auto numbers = llvm::map_to_vector(functions, numbersOf);
    // By place among the numbers: the run-time scalar, of which equal columns share one.
    std::map<llvm::SmallVector<int64_t>, size_t> columns;
    llvm::SmallVector<std::optional<size_t>> scalars;
    llvm::SmallVector<size_t> scalarPlaces;
    for (size_t place = 0; place < numbers.front().size(); ++place) {
      const auto column = llvm::map_to_vector(numbers, [&](const auto& own) { return own[place]; });
      if (llvm::all_equal(column)) {
        scalars.emplace_back();
        continue;
      }
      const auto [found, isNew] = columns.try_emplace(column, scalarPlaces.size());
      if (isNew) {
        scalarPlaces.push_back(place);
      }
      scalars.push_back(found->second);
    }
    kernel::FuncOp shared = functions.front();
    size_t place = 0;
    shared.setScheduleAttr(
        mapShape(shared.getSchedule(), [&](mlir::IntegerAttr number) -> Attribute {
          const std::optional<size_t> scalar = scalars[place++];
          if (!scalar) {
            return number;
          }
          const auto symbol = mlir::StringAttr::get(context, "n" + std::to_string(*scalar));
          return kernel::ExtentAttr::get(context, {symbol}, mlir::getAffineSymbolExpr(0, context));
        }));
    for (auto [function, own] : llvm::zip_equal(functions, numbers)) {
      const auto sizes = llvm::map_to_vector(scalarPlaces, [&](size_t at) -> Attribute {
        return kernel::ExtentAttr::get(context, own[at]);
      });
      for (kernel::LaunchOp launch : launches[function]) {
        launch.setSizesAttr(mlir::ArrayAttr::get(context, sizes));
      }
    }
    symbols.remove(shared);
    shared.setSymName(name);
    const auto symbol = mlir::FlatSymbolRefAttr::get(symbols.insert(shared));
    for (kernel::FuncOp function : functions) {
      for (kernel::LaunchOp launch : launches[function]) {
        launch.setCalleeAttr(symbol);
      }
      if (function != shared) {
        symbols.erase(function);
      }
    }
  }
};

}  // namespace

}  // namespace straightline::passes
