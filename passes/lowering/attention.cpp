// SPDX-License-Identifier: Apache-2.0
// scaled_dot_product_attention: by a kernel of ours or by a library's.
#include "passes/lowering/attention.h"

#include <cmath>

#include "dialect/error_kind.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/contraction_problem.h"
#include "passes/lowering/loops.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::failure;
using mlir::LogicalResult;
using mlir::success;
using mlir::Value;

bool isReadInParts(op::CatOp cat, LoweringContext& context) {
  auto attention = cat->hasOneUse()
                       ? llvm::dyn_cast<op::ScaledDotProductAttentionOp>(*cat->getUsers().begin())
                       : op::ScaledDotProductAttentionOp();
  if (!attention || attention->getBlock() != cat->getBlock()) {
    return false;
  }
  const Exprs queries = context.extentsOf(attention.getQ());
  const std::optional<int64_t> count =
      queries.size() < 2 ? std::nullopt : symbolic::constantValue(queries[queries.size() - 2]);
  if (attention.getQ().getType().getElementType().getIntOrFloatBitWidth() == 16 && count &&
      *count >= context.facts().queriesForWholeKeys) {
    return false;
  }
  auto inTwo = [&](Value tensor) {
    auto made = tensor.getDefiningOp<op::CatOp>();
    const bool alongKeys =
        made && made->hasOneUse() && made->getBlock() == cat->getBlock() &&
        made.getTensors().size() == 2 &&
        static_cast<size_t>(made.getDim()) + 2 == context.extentsOf(tensor).size();
    return alongKeys ? made : op::CatOp();
  };
  op::CatOp keys = inTwo(attention.getK());
  op::CatOp values = inTwo(attention.getV());
  return keys && values && (cat == keys || cat == values) &&
         context.extentsOf(keys.getTensors()[0]) == context.extentsOf(values.getTensors()[0]);
}

namespace {

/// [.., h, l, e] with up to one leading dim; missing ones have the value `missing`.
Exprs inFourDims(Exprs values, AffineExpr missing) {
  while (values.size() < 4) {
    values.insert(values.begin(), missing);
  }
  return values;
}

class AttentionLowering {
 public:
  AttentionLowering(op::ScaledDotProductAttentionOp attention, LoweringContext& context)
      : attention_(attention),
        context_(context),
        loc_(attention.getLoc()),
        mask_(attention.getMask()),
        problem_("attention", context.target()) {}

  LogicalResult lower() {
    if (context_.extentsOf(attention_.getQ()).size() > 4) {
      return emitUnsupported(attention_) << attention_->getName().stripDialect() << " has rank "
                                         << context_.extentsOf(attention_.getQ()).size()
                                         << "; the nearest supported form has rank 4";
    }
    bindOperands();
    shareKeys();
    describeProblem();
    SelectionConstraints constraints;
    constraints.route = routeOf(attention_);
    const KernelChoice choice = chooseKernel(problem_, constraints);
    if (failed(checkRules(attention_, choice))) {
      return failure();
    }
    if (!choice.kernel) {
      emitNoKernel(attention_, choice, constraints);
      return failure();
    }
    spec_.family = choice.kernel->family;
    spec_.op = "scaled_dot_product_attention";
    spec_.why = choice.why;
    spec_.alternatives = choice.alternativesAttr(context_.context());
    spec_.costUs = choice.costUs;
    spec_.ownCost = true;
    if (spec_.family.empty()) {
      callLibrary(*choice.kernel);
    } else {
      launch(*choice.kernel);
    }
    if (to_ != wanted_) {
      context_.copy(loc_, to_, wanted_, "copy",
                    "the result is wanted in another layout than attention writes");
    }
    return success();
  }

 private:
  AffineExpr constant(int64_t value) { return context_.constant(value); }
  Exprs extentsInFour(Value tensor) { return inFourDims(context_.extentsOf(tensor), constant(1)); }
  Exprs stridesInFour(Value buffer) {
    return inFourDims(context_.stridesOf(typeOf(buffer)), constant(0));
  }

  // --- operands

  void bindOperands() {
    q_ = extentsInFour(attention_.getQ());
    k_ = extentsInFour(attention_.getK());
    tensors_ = {attention_.getQ(), attention_.getK(), attention_.getV()};
    auto keys = attention_.getK().getDefiningOp<op::CatOp>();
    if (keys && isReadInParts(keys, context_)) {  // then the values are, too
      auto values = attention_.getV().getDefiningOp<op::CatOp>();
      firstKeys_ = keys.getTensors()[0];
      tensors_ = {attention_.getQ(), keys.getTensors()[0], values.getTensors()[0],
                  keys.getTensors()[1], values.getTensors()[1]};
    }
    for (Value tensor : tensors_) {
      Value buffer = context_.bufferOf(tensor);
      const Exprs strides = context_.stridesOf(typeOf(buffer));
      inputs_.push_back(strides.back() == constant(1)
                            ? buffer
                            : context_.contiguous(loc_, buffer, "attention reads whole heads"));
    }
    maskStrides_ = Exprs(4, constant(0));
    if (mask_) {
      bindMask();
    }
    wanted_ = context_.destination(attention_.getResult());
    to_ = context_.stridesOf(typeOf(wanted_)).back() == constant(1)
              ? wanted_
              : context_.slot(context_.contiguousType(context_.extentsOf(attention_.getResult()),
                                                      typeOf(wanted_).getElementType()));
    qStrides_ = stridesInFour(inputs_[0]);
    toStrides_ = stridesInFour(to_);
  }

  void bindMask() {
    Value mask = context_.bufferOf(mask_);
    const Exprs extents = context_.extentsOf(mask_);
    Exprs strides = context_.stridesOf(typeOf(mask));
    if (strides.back() != constant(1) && extents.back() != constant(1)) {
      mask = context_.contiguous(loc_, mask, "a mask is read along the keys");
      strides = context_.stridesOf(typeOf(mask));
    }
    for (size_t dim = 0; dim < strides.size(); ++dim) {
      maskStrides_[4 - strides.size() + dim] =
          extents[dim] == constant(1) ? constant(0) : strides[dim];
    }
    inputs_.push_back(mask);
  }

  /// Where the target has it so, the heads of one query that share keys are queries of one head:
  /// each key is read once for them.
  void shareKeys() {
    if (!context_.facts().mergesHeadsOfOneQuery || q_[2] != constant(1) || q_[1] == k_[1] ||
        attention_.getIsCausal()) {
      return;
    }
    const AffineExpr group = q_[1].floorDiv(k_[1]);
    q_[2] = group;
    q_[1] = k_[1];
    for (Exprs* strides : {&qStrides_, &toStrides_, &maskStrides_}) {
      (*strides)[2] = (*strides)[1];
      (*strides)[1] = (*strides)[1] * group;
    }
  }

  // --- the choice of a kernel

  void describeProblem() {
    auto add = [&](Value buffer, const Exprs& extents, const Exprs& strides) {
      problem_.addOperand(typeOf(buffer).getElementType(), staticOrDynamic(extents),
                          staticOrDynamic(strides), false);
    };
    add(inputs_[0], q_, qStrides_);
    add(inputs_[1], k_, stridesInFour(inputs_[1]));
    add(inputs_[2], extentsInFour(attention_.getV()), stridesInFour(inputs_[2]));
    if (mask_) {
      add(inputs_.back(), extentsInFour(mask_), stridesInFour(inputs_.back()));
    }
    problem_.setInputs(mask_ ? 4 : 3);
    Exprs result = q_;
    result[3] = extentsInFour(attention_.getV())[3];
    add(to_, result, toStrides_);
    problem_.addAttribute("is_causal", attention_.getIsCausal() ? 1 : 0);
    if (firstKeys_) {
      problem_.addAttribute("parts", 2);
    }
    if (const std::optional<int64_t> period = attention_.getMaskPeriod()) {
      problem_.addAttribute("mask_images", *period);
    }
    if (attention_.getEmptyIsNan()) {
      problem_.addAttribute("empty_is_nan", 1);
    }
    if (attention_.getQ().getType().getElementType().isF32()) {
      addTf32(problem_, context_.module(), "matmul");
    }
    problem_.setAtEdge(llvm::any_of(tensors_, isAtGraphEdge) || (mask_ && isAtGraphEdge(mask_)) ||
                       isAtGraphEdge(attention_.getResult()));
  }

  double scale() { return attention_.getScale() ? attention_.getScale()->convertToDouble() : 0.0; }

  // --- a library's kernel

  /// The buffer seen with four dims: the library reads extents and strides from its operands.
  Value whole(Value buffer, const Exprs& extents, const Exprs& strides) {
    return extents.size() == 4 && context_.extentsOf(typeOf(buffer)) == extents
               ? buffer
               : context_.view(loc_, buffer,
                               context_.type(extents, typeOf(buffer).getElementType(), strides),
                               constant(0));
  }

  void callLibrary(const sl_kernel_desc& kernel) {
    // Of float32, as the library takes it.
    const double defaultScale =
        1.0 / std::sqrt(static_cast<double>(*symbolic::constantValue(q_[3])));
    const float known = static_cast<float>(scale() != 0.0 ? scale() : defaultScale);
    llvm::SmallVector<Value> given;
    for (auto [buffer, tensor] : llvm::zip(llvm::ArrayRef(inputs_).take_front(3), tensors_)) {
      given.push_back(whole(buffer, extentsInFour(tensor), stridesInFour(buffer)));
    }
    if (mask_) {
      given.push_back(whole(inputs_.back(), extentsInFour(mask_), maskStrides_));
    }
    Value out = whole(to_, extentsInFour(attention_.getResult()), toStrides_);
    context_.callLibrary(
        loc_, {kernel, problem_, spec_}, given, {}, out,
        {context_.named("is_causal", context_.number(attention_.getIsCausal() ? 1 : 0)),
         context_.named("scale", context_.builder().getF32FloatAttr(known))});
  }

  // --- a kernel of ours

  void setTune(const sl_kernel_desc& kernel) {
    spec_.tune = tuneAttributes(context_.context(), kernel, problem_);
    const bool early = context_.isFixedInRun(tensors_[1], inputs_[1]) &&
                       context_.isFixedInRun(tensors_[2], inputs_[2]);
    for (auto [name, value] :
         {std::pair("mask", static_cast<bool>(mask_)),
          std::pair("causal", attention_.getIsCausal()), std::pair("early", early)}) {
      if (mlir::NamedAttribute* entry = spec_.tunable(name)) {
        entry->setValue(context_.number(value ? 1 : 0));
      }
    }
    // In the order of the family's struct: behind `causal`.
    auto* causal = spec_.tunable("causal");
    auto* place = causal ? causal + 1 : spec_.tune.end();
    if (firstKeys_) {
      place = spec_.tune.insert(place, context_.named("parts", context_.number(2))) + 1;
    }
    if (attention_.getEmptyIsNan()) {
      spec_.tune.insert(place, context_.named("nan", context_.number(1)));
    }
  }

  void setShape() {
    auto put = [&](llvm::StringRef key, mlir::Attribute value) {
      spec_.shape.push_back(context_.named(key, value));
    };
    auto three = [&](const Exprs& strides) {
      return context_.numbers({strides[0], strides[1], strides[2]});
    };
    put("b", context_.number(q_[0]));
    put("h", context_.number(q_[1]));
    put("hk", context_.number(k_[1]));
    put("s", context_.number(q_[2]));
    put("t", context_.number(k_[2]));
    put("d", context_.number(q_[3]));
    put("scale", context_.builder().getF64FloatAttr(scale()));
    put("qStride", three(qStrides_));
    put("kStride", three(stridesInFour(inputs_[1])));
    put("vStride", three(stridesInFour(inputs_[2])));
    put("outStride", three(toStrides_));
    put("maskStride", context_.numbers(maskStrides_));
    if (const std::optional<int64_t> period = attention_.getMaskPeriod()) {
      put("maskImages", context_.number(*period));
    }
    if (firstKeys_) {
      put("split", context_.number(extentsInFour(firstKeys_)[2]));
      put("k2Stride", three(stridesInFour(inputs_[3])));
      put("v2Stride", three(stridesInFour(inputs_[4])));
    }
    put("epilogueStride", context_.builder().getArrayAttr({}));
  }

  void launch(const sl_kernel_desc& kernel) {
    setTune(kernel);
    setShape();
    spec_.inputs = inputs_;
    spec_.outputs = {to_};
    spec_.name = "attention" + sizeName({q_[0], q_[1], q_[2], k_[2], q_[3]});
    spec_.bodies.push_back(roundedSums(loc_, typeOf(to_).getElementType()));
    const sl_problem asked = problem_.view();
    if (const int64_t bytes = kernel.workspace ? kernel.workspace(&asked) : 0; bytes > 0) {
      spec_.workspace.push_back(context_.slot(
          context_.contiguousType({constant(bytes)}, context_.builder().getI8Type())));
    }
    context_.launch(loc_, spec_);
  }

  op::ScaledDotProductAttentionOp attention_;
  LoweringContext& context_;
  mlir::Location loc_;
  Value mask_;  ///< null where there is none
  Problem problem_;
  KernelSpec spec_;
  Exprs q_, k_;  ///< extents in four dims
  llvm::SmallVector<Value> tensors_;
  Value firstKeys_;  ///< of keys that are read in two parts; else null
  llvm::SmallVector<Value> inputs_;
  Exprs qStrides_, toStrides_, maskStrides_;
  Value wanted_, to_;
};

LogicalResult lowerAttention(op::ScaledDotProductAttentionOp attention, LoweringContext& context) {
  return AttentionLowering(attention, context).lower();
}

}  // namespace

void registerAttentionRules(RuleSet& rules) { rules.add(lowerAttention); }

}  // namespace straightline::lowering
