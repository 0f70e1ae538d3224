// SPDX-License-Identifier: Apache-2.0
#include "passes/small_images.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "llvm/ADT/STLExtras.h"

namespace straightline {

namespace {

/// Sides of square results at which kernels are compared, one image each; where a call decides
/// about the batch alone, how many images.
constexpr int64_t kSides[] = {1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 28, 32};
/// What another form of the weight costs in memory and code: it is worth that where it saves a
/// factor of 2 at one of the sides, or less at several.
const double kAnotherForm = std::log(2.0);

/// A kernel, and what it makes of the weight: the tunable "m" of those that transform it.
struct Form {
  const sl_kernel_desc* kernel;
  int64_t m;
  bool operator==(const Form& other) const { return kernel == other.kernel && m == other.m; }
};

int64_t formOf(const sl_kernel_desc& kernel, const Problem& problem) {
  const llvm::SmallVector<int64_t> values = tuneValues(kernel, problem);
  for (int32_t i = 0; i < kernel.tunable_count; ++i) {
    if (llvm::StringRef(kernel.tunables[i].name) == "m") {
      return values[i];
    }
  }
  return 0;
}

/// The first variant that has the form; -1: none.
int32_t variantOf(const Form& form, Problem problem) {
  const sl_problem plain = problem.view();
  const int32_t variants = form.kernel->variants ? form.kernel->variants(&plain) : 1;
  for (int32_t variant = 0; variant < variants; ++variant) {
    problem.setVariant(variant);
    if (formOf(*form.kernel, problem) == form.m) {
      return variant;
    }
  }
  return -1;
}

/// Microseconds; infinite where no variant has the form.
double costOf(const Form& form, Problem problem) {
  const int32_t variant = variantOf(form, problem);
  if (variant < 0) {
    return HUGE_VAL;
  }
  problem.setVariant(variant);
  const sl_problem asked = problem.view();
  return form.kernel->cost(&asked);
}

/// Whether the lowering can write a branch between the kernel and another one of these.
bool isOfBranch(const sl_kernel_desc& kernel) {
  const llvm::StringRef family = kernel.family ? kernel.family : "";
  return family == "convolution" || family == "winograd";
}

/// The kernels for one of the sides.
struct Side {
  ImageSizes sizes;
  int64_t pixels;
  Problem problem;
  Form best;
  double bestUs;
};

/// `best` is the cheapest of these kernels; null where none may take the problem.
Side sideOf(op::FusionOp fusion, kernel::TargetAttr target, int64_t length,
            const SelectionConstraints& constraints) {
  const ConvolutionGeometry g =
      convolutionGeometry(llvm::cast<op::ConvolutionOp>(contractionRoot(fusion)));
  const bool isOpen = g.ho == SL_DYNAMIC || g.wo == SL_DYNAMIC;
  const auto size = [](int64_t known, int64_t open) { return known == SL_DYNAMIC ? open : known; };
  const ImageSizes sizes = {size(g.n, isOpen ? 1 : length), size(g.ho, length), size(g.wo, length)};
  const Problem problem = contractionProblemAt(fusion, target, sizes);
  Side side{sizes, sizes.images * sizes.height * sizes.width, problem, {nullptr, 0}, HUGE_VAL};
  const sl_problem asked = problem.view();
  forEachKernel([&](const sl_kernel_desc& kernel) {
    if (llvm::StringRef(kernel.op) == asked.op && isOfBranch(kernel) &&
        mayTake(kernel, problem, constraints) && kernel.cost(&asked) < side.bestUs) {
      side.best = {&kernel, formOf(kernel, problem)};
      side.bestUs = kernel.cost(&asked);
    }
  });
  return side;
}

/// Which form each side takes.
struct Split {
  std::vector<size_t> form;  ///< of each side
  double lost = 0;           ///< sum of the logarithms of cost / least cost, and of kAnotherForm
};

/// The split that loses least and ends with the last form. `us`: of each side, of each form.
Split leastSplit(const std::vector<std::vector<double>>& us, const std::vector<Side>& sides) {
  const size_t count = us.front().size();
  std::vector<Split> best(count);  // up to a side that takes this form
  for (size_t side = 0; side < sides.size(); ++side) {
    std::vector<Split> next(count);
    for (size_t form = 0; form < count; ++form) {
      next[form].lost = HUGE_VAL;
      for (size_t before = 0; before < (side == 0 ? 1 : count); ++before) {
        const bool changes = side > 0 && before != form;
        const double lost = best[before].lost + (changes ? kAnotherForm : 0) +
                            std::log(us[side][form] / sides[side].bestUs);
        if (lost < next[form].lost) {
          next[form] = {best[before].form, lost};
        }
      }
      next[form].form.push_back(form);
    }
    best = std::move(next);
  }
  return best.back();
}

}  // namespace

KernelsBySize chooseKernelsBySize(op::FusionOp fusion, kernel::TargetAttr target,
                                  const sl_kernel_desc& chosen,
                                  const SelectionConstraints& constraints) {
  KernelsBySize kernels{{}, &chosen, 0};
  if (!hasOpenImages(fusion) || !isOfBranch(chosen) || fusion->getNumResults() != 1 ||
      op::isPrepared(fusion)) {
    return kernels;
  }
  std::vector<Form> forms;
  std::vector<Side> sides;
  for (int64_t side : kSides) {
    sides.push_back(sideOf(fusion, target, side, constraints));
    const Form best = sides.back().best;
    if (!best.kernel) {
      return kernels;
    }
    llvm::erase(forms, best);
    forms.push_back(best);  // that of the largest side is the last
  }
  Problem open = contractionProblem(fusion, target);
  open.setVariant(0);
  const int32_t variant = variantOf(forms.back(), open);
  if (variant < 0 || !mayTake(*forms.back().kernel, open, constraints)) {
    return kernels;
  }
  std::vector<std::vector<double>> us;
  for (const Side& side : sides) {
    us.push_back({});
    for (const Form& form : forms) {
      us.back().push_back(costOf(form, side.problem));
    }
  }
  const Split split = leastSplit(us, sides);
  mlir::Builder builder(fusion.getContext());
  for (size_t at = 0; at + 1 < sides.size(); ++at) {
    const Form& form = forms[split.form[at]];
    if (split.form[at + 1] == split.form[at]) {
      continue;
    }
    size_t tuned = at;  // the largest side for which the form is the best, else the largest of all
    while (tuned > 0 && !(sides[tuned].best == form) && split.form[tuned - 1] == split.form[at]) {
      --tuned;
    }
    tuned = sides[tuned].best == form ? tuned : at;
    const ImageSizes& sizes = sides[tuned].sizes;
    char why[128];
    std::snprintf(why, sizeof why, "%s: estimated %.2f us for %ld x %ld x %ld pixels",
                  form.kernel->name, us[tuned][split.form[at]], static_cast<long>(sizes.images),
                  static_cast<long>(sizes.height), static_cast<long>(sizes.width));
    kernels.small.push_back(op::SmallImagesAttr::get(
        fusion.getContext(), builder.getStringAttr(form.kernel->name), builder.getStringAttr(why),
        sides[at + 1].pixels, sizes.images, sizes.height, sizes.width));
  }
  if (!kernels.small.empty()) {
    kernels.large = forms.back().kernel;
    kernels.variant = variant;
  }
  return kernels;
}

}  // namespace straightline
