// SPDX-License-Identifier: Apache-2.0
// Elementwise fusions: one loop nest over the result's extents; every operand is read through
// strides, so that broadcasts, permutations and slices cost nothing.
#include "llvm/ADT/STLExtras.h"
#include "passes/lowering/control.h"
#include "passes/lowering/scalar_evaluator.h"

namespace straightline::lowering {

using mlir::AffineMap;
using mlir::failure;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::success;
using mlir::Value;

namespace {

constexpr size_t kMostOperands = 16;  ///< sl::kMaxOperands

/// The kernel of a fusion, or several of which each writes some places.
class Pointwise {
 public:
  Pointwise(op::FusionOp fusion, LoweringContext& context, llvm::ArrayRef<Access> accesses)
      : fusion_(fusion), context_(context), accesses_(accesses) {
    for (const Access& access : accesses) {
      inputs_.push_back(context.bufferOf(fusion.getInputs()[access.operand]));
    }
  }

  void write(Value value, Value place) { places_.push_back({value, place}); }
  /// Where one kernel cannot write all places, another one computes the value again; where that
  /// one would change what the first one reads, the place gets a copy.
  void writeAlso(Value value, Value place) {
    if (inputs_.size() + places_.size() < kMostOperands) {
      write(value, place);
    } else if (llvm::none_of(inputs_, [&](Value input) {
                 return context_.root(input) == context_.root(place);
               })) {
      more_.push_back({value, place});
    } else {
      const auto* of =
          llvm::find_if(places_, [&](const Written& each) { return each.first == value; });
      copies_.push_back({of->second, place});
    }
  }

  /// What writes more places comes first: the others may be written over inputs.
  void launch() {
    const size_t most = kMostOperands - std::min(inputs_.size(), kMostOperands - 1);
    for (llvm::ArrayRef<Written> rest = more_; !rest.empty();) {
      const llvm::ArrayRef<Written> some = rest.take_front(most);
      launch(some);
      rest = rest.drop_front(some.size());
    }
    launch(places_);
    for (auto [from, to] : copies_) {
      context_.copy(fusion_.getLoc(), from, to, "copy", "the value is that of several states");
    }
  }

 private:
  using Written = std::pair<Value, Value>;  ///< a value of the fusion's body, and where it goes

  void launch(llvm::ArrayRef<Written> written);

  op::FusionOp fusion_;
  LoweringContext& context_;
  llvm::ArrayRef<Access> accesses_;
  llvm::SmallVector<Value> inputs_;
  llvm::SmallVector<Written> places_, more_, copies_;
};

void Pointwise::launch(llvm::ArrayRef<Written> written) {
  KernelSpec spec;
  spec.op = opNames(fusion_);
  mlir::Block& body = fusion_.getBody().front();
  spec.name = "pointwise_" + body.front().getName().stripDialect().str();
  llvm::SmallVector<Exprs> strides;
  llvm::SmallVector<mlir::Type> argumentTypes;
  for (auto [access, buffer] : llvm::zip(accesses_, inputs_)) {
    spec.inputs.push_back(buffer);
    strides.push_back(context_.stridesThrough(buffer, access.map));
    argumentTypes.push_back(scalarType(typeOf(buffer).getElementType()));
  }
  for (auto [value, place] : written) {
    spec.outputs.push_back(place);
    strides.push_back(context_.stridesOf(typeOf(place)));
  }
  // An operand of the same strides as an output may share its storage: each element is read before
  // it is written.
  for (size_t input = 0; input < accesses_.size(); ++input) {
    for (size_t output = 0; output < spec.outputs.size(); ++output) {
      if (strides[input] == strides[accesses_.size() + output] &&
          typeOf(spec.inputs[input]).getElementType() ==
              typeOf(spec.outputs[output]).getElementType()) {
        spec.ties.push_back({static_cast<int64_t>(input), static_cast<int64_t>(output)});
      }
    }
  }
  spec.why = "emitted.pointwise: one pass over " + std::to_string(spec.inputs.size()) + " operands";
  const Exprs extents = context_.extentsOf(fusion_.getResult(0));
  const AccessMap identity = AffineMap::getMultiDimIdentityMap(extents.size(), context_.context());
  spec.bodies.push_back(
      {"body", argumentTypes, [&](mlir::OpBuilder& builder, mlir::ValueRange arguments) {
         ScalarEvaluator evaluator(fusion_, builder, [&](unsigned operand, AccessMap map) {
           return arguments[llvm::find(accesses_, Access{operand, map}) - accesses_.begin()];
         });
         return llvm::map_to_vector(written, [&](const Written& each) {
           return *evaluator.evaluate(each.first, identity);
         });
       }});
  context_.launchPointwise(fusion_.getLoc(), spec, extents, strides);
}

LogicalResult lowerPointwise(op::FusionOp fusion, LoweringContext& context) {
  mlir::Block& body = fusion.getBody().front();
  Operation* yield = body.getTerminator();
  const Exprs extents = context.extentsOf(fusion.getResult(0));
  const AccessMap identity = AffineMap::getMultiDimIdentityMap(extents.size(), context.context());

  // First walk: which operands are read, through which maps.
  llvm::SmallVector<Access> accesses;
  {
    mlir::Block scratch;
    mlir::OpBuilder scratchBuilder(context.context());
    scratchBuilder.setInsertionPointToEnd(&scratch);
    ScalarEvaluator evaluator(fusion, scratchBuilder, [&](unsigned operand, AccessMap map) {
      accesses.push_back({operand, map});
      return scratch.addArgument(scalarType(elementType(fusion.getInputs()[operand])),
                                 fusion.getLoc());
    });
    for (Value value : yield->getOperands()) {
      if (failed(evaluator.evaluate(value, identity))) {
        return failure();
      }
    }
  }
  Pointwise kernel(fusion, context, accesses);
  for (auto [result, value] : llvm::zip(fusion.getResults(), yield->getOperands())) {
    kernel.write(value, context.destination(result));
  }
  // A loop may carry a result both as itself and as a row of another tensor (h and y of a
  // recurrence): the kernel then writes both.
  for (auto [result, value] : llvm::zip(fusion.getResults(), yield->getOperands())) {
    if (Value row = context.inPrepare() ? Value() : takeRow(result, context)) {
      kernel.write(value, row);
    }
  }
  // And a result may be the new value of several states.
  for (auto [result, value] : llvm::zip(fusion.getResults(), yield->getOperands())) {
    for (Value place : context.takePlaces(result)) {
      kernel.writeAlso(value, place);
    }
  }
  kernel.launch();
  return success();
}

}  // namespace

void registerPointwiseRules(RuleSet& rules) {
  Rule& rule = rules.addFamily("pointwise", lowerPointwise);
  rule.isElementwise = true;
  rule.readsLiterals = true;
  rule.writesRows = true;
}

}  // namespace straightline::lowering
