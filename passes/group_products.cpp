// SPDX-License-Identifier: Apache-2.0
// Products of the same rows become one kernel: fusions whose linears read one x are put into
// one op.fusion of family product_group, whose results are those of all. Three kinds of neighbours
// join:
//
//   u = fusion(x, wu) { linear };  y = fusion(x, wg, u) { silu(linear) * u }   ->  two linears,
//   operands of one expression
//   q = fusion(x, wq);  k = fusion(x, wk);  v = fusion(x, wv)                  ->  one fusion with
//   three results
//   x = fusion(a, w) { norm };  y = fusion(x, ..)                              ->  the norm in the
//   products' fusion
//
// Runs after select-kernels and looks at linears to which the estimates gave a kernel whose
// problems may be asked as a group (sl_kernel_desc.group_op), and at those of many rows, which
// libraries compute. The registry decides about a group: a kernel for that op must accept it; a
// group without the fusion that makes x must also cost less than its products apart. If a route
// gives linear to another kernel, there are no groups. Measuring single products does not show the
// gain of a group, so a measured choice (#op.options) counts only for a product that joins no
// group, and op.candidates lists only such products.
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Format.h"
#include "mlir/IR/IRMapping.h"
#include "passes/contraction_problem.h"
#include "passes/fusion_group.h"
#include "passes/passes.h"

namespace straightline::passes {

#define GEN_PASS_DEF_GROUPPRODUCTS
#include "passes/passes.h.inc"

namespace {

using mlir::Operation;
using mlir::Value;

/// The largest number of epilogue operands for which kernels have strides.
constexpr unsigned kMostEpilogueOperands = 4;

op::LinearOp linearOf(op::FusionOp fusion) {
  return llvm::cast<op::LinearOp>(contractionRoot(fusion));
}
Value rowsOf(op::FusionOp fusion) { return fusionInput(fusion, linearOf(fusion).getX()); }

/// One part of a group: a product, and the product whose result the epilogue of `main` reads (null:
/// none).
struct Part {
  op::FusionOp main, other;
  int64_t weights() const { return other ? 2 : 1; }
  void addTo(llvm::SmallVectorImpl<op::FusionOp>& members) const {
    if (other) {
      members.push_back(other);
    }
    members.push_back(main);
  }
};

int64_t sizeOf(llvm::ArrayRef<int64_t> extents) {
  int64_t size = 1;
  for (const int64_t extent : extents) {
    size = mlir::ShapedType::isDynamic(extent) || mlir::ShapedType::isDynamic(size)
               ? mlir::ShapedType::kDynamic
               : size * extent;
  }
  return size;
}

llvm::ArrayRef<int64_t> shapeOf(Value tensor) {
  return llvm::cast<mlir::RankedTensorType>(tensor.getType()).getShape();
}
mlir::Type elementOf(Value tensor) {
  return llvm::cast<mlir::RankedTensorType>(tensor.getType()).getElementType();
}

/// The number of epilogue operands of the kernel: one for each use of an argument other than the
/// rows and the weight.
unsigned epilogueOperands(op::FusionOp fusion) {
  op::LinearOp linear = linearOf(fusion);
  unsigned count = 0;
  for (Value argument : fusion.getBody().front().getArguments()) {
    if (argument != linear.getX() && argument != linear.getWeight()) {
      count += static_cast<unsigned>(std::distance(argument.use_begin(), argument.use_end()));
    }
  }
  return count;
}

/// The kernel that the estimates choose for the fusion; null if there is none.
const sl_kernel_desc* estimatedKernel(op::FusionOp fusion) {
  const op::KernelChoiceAttr choice = op::kernelChoiceOf(fusion);
  return choice ? findKernel(choice.estimatedKernel().getValue()) : nullptr;
}

/// Whether libraries' kernels, which know no groups, may be faster than one kernel for the group.
bool hasManyRows(op::FusionOp fusion) {
  constexpr int64_t kFewRows = 16;
  const int64_t rows = sizeOf(shapeOf(linearOf(fusion).getX()).drop_back());
  return !mlir::ShapedType::isDynamic(rows) && rows > kFewRows;
}

/// As which op a group with this product is asked: that of the kernel that the estimates choose
/// or, of a linear of many rows, linear_group in any case. Empty: it joins none.
llvm::StringRef groupOpOf(op::FusionOp fusion) {
  const sl_kernel_desc* kernel = estimatedKernel(fusion);
  if (!kernel || !llvm::isa<op::LinearOp>(contractionRoot(fusion))) {
    return "";
  }
  return kernel->group_op ? kernel->group_op : hasManyRows(fusion) ? "linear_group" : "";
}

/// Whether the product may be a part: it has one result, computed element by element from the
/// linear's result, and reads its rows in the linear alone.
bool mayBePart(op::FusionOp fusion) {
  if (groupOpOf(fusion).empty() || op::isPrepared(fusion) || fusion.getNumResults() != 1) {
    return false;
  }
  op::LinearOp linear = linearOf(fusion);
  // A weight that is widened from a stored one is left to the product's own kernel, which may read
  // the stored weight itself (select-kernels); a group would read the widened copy.
  return !storedWeight(fusionInput(fusion, linear.getWeight())) && linear.getX().hasOneUse() &&
         linear.getWeight().hasOneUse() && linear.getX() != linear.getWeight() &&
         elementOf(linear.getX()) == elementOf(linear.getWeight()) &&
         epilogueOperands(fusion) <= kMostEpilogueOperands;
}

/// Whether `value` is an input that elementwise ops alone read, in the shape of the result.
bool meetsElementwise(op::FusionOp fusion, Value value) {
  bool found = false;
  for (auto [input, argument] :
       llvm::zip(fusion.getInputs(), fusion.getBody().front().getArguments())) {
    if (input != value) {
      continue;
    }
    if (found || shapeOf(value) != shapeOf(fusion.getResult(0)) ||
        !llvm::all_of(argument.getUsers(), [](Operation* user) {
          return llvm::isa<op::ElementwiseOpInterface>(user);
        })) {
      return false;
    }
    found = true;
  }
  return found;
}

/// The parts that products of one x form, in block order: pairs where possible, else single ones.
llvm::SmallVector<Part> partsOf(llvm::ArrayRef<op::FusionOp> products) {
  llvm::SmallVector<Part> parts;
  llvm::SmallPtrSet<Operation*, 8> taken;
  for (op::FusionOp main : products) {
    for (op::FusionOp other : products) {
      const Value result = other.getResult(0);
      // When both are one part, the main product no longer reads the result: one operand less.
      if (main != other && !taken.contains(main) && !taken.contains(other) && result.hasOneUse() &&
          *result.getUsers().begin() == main && meetsElementwise(main, result) &&
          epilogueOperands(main) + epilogueOperands(other) <= kMostEpilogueOperands) {
        parts.push_back({main, other});
        taken.insert(main);
        taken.insert(other);
      }
    }
  }
  for (op::FusionOp product : products) {
    if (!taken.contains(product)) {
      parts.push_back({product, {}});
    }
  }
  llvm::sort(parts, [](const Part& a, const Part& b) { return a.main->isBeforeInBlock(b.main); });
  return parts;
}

/// The fusion that makes x, if each block of the products may repeat it: it is elementwise or
/// reduces single rows (sum, amax, amin), and only the products read x. Null: none.
op::FusionOp makerOf(Value x, llvm::ArrayRef<op::FusionOp> products) {
  auto maker = x.getDefiningOp<op::FusionOp>();
  if (!maker || op::isPrepared(maker) || maker.getNumResults() != 1 ||
      maker->getBlock() != products[0]->getBlock() ||
      !llvm::is_contained({"row_reduction", "pointwise"}, maker.getFamily())) {
    return {};
  }
  for (mlir::OpOperand& use : x.getUses()) {
    auto product = llvm::dyn_cast<op::FusionOp>(use.getOwner());
    if (!product || !llvm::is_contained(products, product) ||
        fusionInputIndex(product, linearOf(product).getX()) != use.getOperandNumber()) {
      return {};
    }
  }
  const int64_t last = static_cast<int64_t>(shapeOf(x).size()) - 1;
  for (Operation& op : maker.getBody().front().without_terminator()) {
    auto reduction = llvm::dyn_cast<op::ReductionOpInterface>(op);
    if (reduction && (reduction.keepsShape() || shapeOf(op.getOperand(0)) != shapeOf(x) ||
                      reduction.getReducedDims() != llvm::SmallVector<int64_t>{last} ||
                      !llvm::is_contained({"sum", "amax", "amin"}, reduction.getCombineKind()))) {
      return {};
    }
  }
  return maker;
}

int64_t stagesOf(op::FusionOp maker) {
  int64_t stages = 0;
  for (Operation& op : maker.getBody().front()) {
    stages += llvm::isa<op::ReductionOpInterface>(op) ? 1 : 0;
  }
  return stages;
}

/// One fusion that computes what all members compute, at the place of the last one. Values that
/// only members read are not results of it. Restores the topological order of the block.
op::FusionOp merged(llvm::ArrayRef<op::FusionOp> members, llvm::StringRef family) {
  mlir::OpBuilder builder(members.back());
  llvm::SmallVector<mlir::Location> locations;
  for (op::FusionOp member : members) {
    locations.push_back(member.getLoc());
  }
  const mlir::Location loc = builder.getFusedLoc(locations);
  auto body = std::make_unique<mlir::Region>();
  mlir::Block& block = body->emplaceBlock();
  mlir::OpBuilder inside(builder.getContext());
  inside.setInsertionPointToEnd(&block);
  llvm::MapVector<Value, Value> known;  // outside -> inside
  llvm::SmallVector<Value> inputs, results, yielded;
  for (op::FusionOp member : members) {
    mlir::IRMapping mapping;
    mlir::Block& old = member.getBody().front();
    for (auto [input, argument] : llvm::zip(member.getInputs(), old.getArguments())) {
      Value& value = known[input];
      // A weight may have another type in the body than outside: the argument has the body's type.
      if (!value) {
        inputs.push_back(input);
        value = block.addArgument(argument.getType(), loc);
      }
      mapping.map(argument, value);
    }
    for (Operation& op : old.without_terminator()) {
      inside.clone(op, mapping);
    }
    for (auto [result, value] :
         llvm::zip(member.getResults(), old.getTerminator()->getOperands())) {
      known[result] = mapping.lookup(value);
      const bool isSeen = llvm::any_of(result.getUsers(), [&](Operation* user) {
        return !llvm::is_contained(members, llvm::dyn_cast<op::FusionOp>(user));
      });
      if (isSeen) {
        results.push_back(result);
        yielded.push_back(known[result]);
      }
    }
  }
  op::YieldOp::create(inside, loc, yielded);
  auto fusion = op::FusionOp::create(builder, loc, mlir::TypeRange(mlir::ValueRange(results)),
                                     inputs, family);
  fusion.getBody().takeBody(*body);
  for (auto [old, fresh] : llvm::zip(results, fusion.getResults())) {
    old.replaceAllUsesWith(fresh);
  }
  for (op::FusionOp member : llvm::reverse(members)) {
    member->erase();
  }
  restoreOrder(fusion);
  return fusion;
}

/// Some parts of one x, and the fusion that makes x if it joins the group (null: it does not).
struct Group {
  llvm::SmallVector<Part> parts;
  op::FusionOp maker;

  llvm::SmallVector<op::FusionOp> products() const {
    llvm::SmallVector<op::FusionOp> all;
    for (const Part& part : parts) {
      part.addTo(all);
    }
    llvm::sort(all, [](op::FusionOp a, op::FusionOp b) { return a->isBeforeInBlock(b); });
    return all;
  }
  /// Whether no part reads a result of another: blocks of a launch do not wait for each other.
  bool hasIndependentParts() const {
    const llvm::SmallVector<op::FusionOp> all = products();
    return llvm::none_of(parts, [&](Part part) {
      llvm::SmallVector<Value> read(part.main.getInputs());
      if (part.other) {
        llvm::append_range(read, part.other.getInputs());
      }
      return llvm::any_of(read, [&](Value input) {
        auto maker = input.getDefiningOp<op::FusionOp>();
        return maker && maker != part.other && llvm::is_contained(all, maker);
      });
    });
  }
  FusionGroup operations() const {
    FusionGroup all;
    for (op::FusionOp product : products()) {
      all.insert(product);
    }
    return all;
  }
  llvm::SmallVector<op::FusionOp> members() const {
    llvm::SmallVector<op::FusionOp> all = products();
    if (maker) {
      all.insert(all.begin(), maker);
    }
    return all;
  }
};

struct GroupProductsPass : impl::GroupProductsBase<GroupProductsPass> {
  using GroupProductsBase::GroupProductsBase;

  void runOnOperation() override {
    target_ = targetOf(getOperation());
    avoided_ = propertiesNamed(avoid).value_or(0);  // select-kernels has refused unknown names
    if (!factsOf(target_).groupsProducts) {
      return;  // on a CPU the threads of a team share each product already (docs/performance/cpu.md)
    }
    for (auto function : getOperation().getOps<mlir::func::FuncOp>()) {
      forEachBlock(function, [&](mlir::Block& block) { groupIn(block); });
    }
    keepCandidatesOfSingles();
  }

 private:
  void keepCandidatesOfSingles() {
    auto rows = op::candidatesOf(getOperation());
    if (!rows) {
      return;
    }
    llvm::DenseSet<mlir::Attribute> keys;
    getOperation().walk([&](op::FusionOp fusion) {
      if (const op::KernelChoiceAttr choice = op::kernelChoiceOf(fusion)) {
        keys.insert(choice.getKey());
      }
    });
    llvm::erase_if(*rows, [&](op::MeasurementAttr row) { return !keys.contains(row.getKey()); });
    op::setCandidates(getOperation(), *rows);
  }

  void groupIn(mlir::Block& block) {
    llvm::MapVector<Value, llvm::SmallVector<op::FusionOp>> byRows;
    for (auto fusion : block.getOps<op::FusionOp>()) {
      if (mayBePart(fusion)) {
        byRows[rowsOf(fusion)].push_back(fusion);
      }
    }
    for (auto& [x, products] : byRows) {
      llvm::SmallVector<Part> left = partsOf(products);
      while (!left.empty()) {
        Group group = groupFrom(left);
        if (!group.parts.empty()) {
          take(group);
        }
      }
    }
  }

  /// Groups the first part with as many others as one kernel accepts, and removes them from `left`.
  /// An empty group: they stay single products.
  Group groupFrom(llvm::SmallVectorImpl<Part>& left) {
    Group group{{left.front()}, {}};
    left.erase(left.begin());
    if (!accepted(group)) {
      return {};
    }
    for (auto* part = left.begin(); part != left.end();) {
      Group larger = group;
      larger.parts.push_back(*part);
      const bool joins =
          part->weights() == group.parts[0].weights() &&
          elementOf(part->main.getInputs()[1]) == elementOf(group.parts[0].main.getInputs()[1]) &&
          isConvex(larger.operations()) && larger.hasIndependentParts() && accepted(larger);
      group = joins ? larger : group;
      part = joins ? left.erase(part) : part + 1;
    }
    const llvm::SmallVector<op::FusionOp> products = group.products();
    if (products.size() == 1 && hasManyRows(products[0])) {
      return {};  // its own kernels are as good, and share tiles among blocks
    }
    Group whole = group;
    whole.maker = makerOf(rowsOf(products[0]), products);
    if (whole.maker && accepted(whole)) {
      return whole;
    }
    return choiceFor(group).costUs < costApart(group) ? group : Group{};
  }

  Problem problemOf(const Group& group) {
    op::LinearOp linear = linearOf(group.parts[0].main);
    const llvm::ArrayRef<int64_t> rows = shapeOf(linear.getX());
    auto size = [](int64_t value) {
      return mlir::ShapedType::isDynamic(value) ? SL_DYNAMIC : value;
    };
    const int64_t m = size(sizeOf(rows.drop_back()));
    const int64_t k = size(rows.back());
    int64_t n = 0;
    for (const Part& part : group.parts) {
      const int64_t more = size(shapeOf(linearOf(part.main).getWeight())[0]);
      n = n == SL_DYNAMIC || more == SL_DYNAMIC ? SL_DYNAMIC : n + more;
    }
    bool early = true;
    for (op::FusionOp product : group.products()) {
      early = early && isFixedInRun(fusionInput(product, linearOf(product).getWeight()));
    }
    op::FusionOp maker = group.maker;
    Problem problem(groupOpOf(group.parts[0].main).str(), target_);
    problem.addOperand(elementOf(linear.getX()), {m, k}, {k, 1}, false);
    problem.addOperand(elementOf(linear.getWeight()), {n, k}, {k, 1}, early);
    problem.addOperand(elementOf(linear.getResult()), {m, n}, {n, 1}, false);
    problem.setInputs(2);
    const std::pair<const char*, int64_t> values[] = {
        {"m", m},
        {"n", n},
        {"k", k},
        {"parts", static_cast<int64_t>(group.parts.size())},
        {"weights", group.parts[0].weights()},
        {"early", early ? 1 : 0},
        {"makes_rows", maker ? 1 : 0},
        {"row_inputs", maker ? static_cast<int64_t>(maker.getInputs().size()) : 1},
        {"stages", maker ? stagesOf(maker) : 0}};
    for (auto [name, value] : values) {
      problem.addAttribute(name, value);
    }
    addTf32(problem, getOperation(), "matmul");
    if (llvm::any_of(group.products(), [&](op::FusionOp product) {
          return contractionProblem(product, target_).passBehindUs() > 0;
        })) {
      problem.addAttribute("computes_behind", 1);
    }
    return problem;
  }

  KernelChoice choiceFor(const Group& group) {
    SelectionConstraints constraints;
    constraints.preferred = prefer;
    constraints.route = routeOf(contractionRoot(group.products().front()));
    constraints.avoided = avoided_;
    constraints.allowed = allow;
    return chooseKernel(problemOf(group), constraints);
  }
  /// Whether a kernel takes it. Products about which rules decide differently stay apart, and so do
  /// those of the preferred backend if it has no kernel for the group.
  bool accepted(const Group& group) {
    std::optional<Route> first;
    for (auto [i, product] : llvm::enumerate(group.products())) {
      const std::optional<Route> route = routeOf(contractionRoot(product));
      if (i == 0) {
        first = route;
      } else if (route.has_value() != first.has_value() ||
                 (route && route->text() != first->text())) {
        return false;
      }
    }
    const KernelChoice choice = choiceFor(group);
    const auto isPreferred = [&](const sl_kernel_desc* kernel) {
      return kernel && prefer.getValue() == kernel->backend;
    };
    return choice.kernel && (isPreferred(choice.kernel) ||
                             llvm::none_of(group.products(), [&](op::FusionOp product) {
                               return isPreferred(estimatedKernel(product));
                             }));
  }

  /// The estimates of libraries' products of 16 bits are too high by a time
  /// (runtime/backends/cuda/tuning.h) that a group's has once, too.
  double costApart(const Group& group) {
    constexpr double kTooHighUs = 2.0;
    double us = 0;
    for (auto [i, product] : llvm::enumerate(group.products())) {
      const sl_kernel_desc& kernel = *estimatedKernel(product);
      Problem problem = contractionProblem(product, target_);
      problem.setVariant(0);
      const sl_problem asked = problem.view();
      us += kernel.cost(&asked) + passBehindUs(kernel, problem);
      const bool is16Bit = elementOf(linearOf(product).getX()).getIntOrFloatBitWidth() == 16;
      us -= i > 0 && is16Bit && isExternal(kernel) ? kTooHighUs : 0;
    }
    return us;
  }

  void take(const Group& group) {
    const Problem problem = problemOf(group);
    const KernelChoice choice = choiceFor(group);
    const size_t count = group.products().size();
    std::string why =
        choice.kernel->name + std::string(": ") +
        (count == 1 ? "a product" : std::to_string(count) + " products of the same rows") +
        (group.maker ? ", which each block makes" : "");
    llvm::raw_string_ostream(why) << llvm::format(
        ", in one kernel: estimated %.2f us (products apart: %.2f us)", choice.costUs,
        costApart(group));
    mlir::NamedAttrList tunables;
    for (mlir::NamedAttribute value : tuneAttributes(&getContext(), *choice.kernel, problem)) {
      tunables.append(value);
    }
    const sl_problem asked = problem.view();
    if (choice.kernel->workspace) {
      tunables.set(
          "workspace",
          mlir::Builder(&getContext()).getI64IntegerAttr(choice.kernel->workspace(&asked)));
    }
    op::FusionOp fusion = merged(group.members(), "product_group");
    op::setKernelChoice(fusion,
                        op::KernelChoiceAttr::get(&getContext(), choice.kernel->name, why)
                            .withAlternatives(choice.alternativesAttr(&getContext()))
                            .withTunables(tunables.getDictionary(&getContext()), choice.costUs));
  }

  kernel::TargetAttr target_;
  uint32_t avoided_ = 0;  ///< sl_kernel_properties
};

}  // namespace

}  // namespace straightline::passes
