// SPDX-License-Identifier: Apache-2.0
// A convolution and the max pool behind it are launched band by band of the pool's rows, so that of
// the large image between them one band exists at a time, which the pool reads from a cache.
//
//   launch @convolution(%x, %w) outs(%image)    112 rows
//   launch @max_pool2d(%image) outs(%y)          56 rows
//     ->  launch @convolution_band(%x rows 0..) outs(%band rows 1..28)
//         launch @max_pool2d_first(%band rows 1..28) outs(%y rows 0..13)
//         launch @band_row(%band row 28) outs(%band row 0)
//         launch @convolution_band(%x rows 56..) outs(%band rows 1..28)
//         launch @max_pool2d_band(%band rows 0..28) outs(%y rows 14..27)
//         ...
//
// Windows overlap by as many rows as the pool pads (3x3, stride 2, padding 1; 2x2, stride 2): those
// are kept from the band before, so each row is computed once.
#include <optional>

#include "dialect/kernel/recorded.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/passes.h"

namespace straightline::passes {

#define GEN_PASS_DEF_BANDPOOLS
#include "passes/passes.h.inc"

namespace {

using kernel::BufferType;
using kernel::FuncOp;
using kernel::LaunchOp;
using mlir::Operation;
using mlir::Value;

/// Smaller images stay in a core's own cache as they are.
constexpr int64_t kLeastBytes = int64_t{2} << 20;
constexpr int64_t kBandBytes = int64_t{1} << 20;
/// Rows of the pool in a band: with fewer, launches and barriers cost more than the memory does.
constexpr int64_t kLeastRows = 4;

std::optional<int64_t> numberOf(FuncOp function, llvm::StringRef name) {
  auto number = llvm::dyn_cast_if_present<mlir::IntegerAttr>(
      mlir::NamedAttrList(function.getSchedule().getShape()).get(name));
  return number ? std::optional<int64_t>(number.getInt()) : std::nullopt;
}

/// The function of `launch` where it is one of `family` whose numbers are all known.
FuncOp functionOf(LaunchOp launch, llvm::StringRef family) {
  auto function = llvm::dyn_cast_if_present<FuncOp>(launch.getEntryOp());
  const bool fits = function && function.getSchedule().getFamily() == family &&
                    function.getScalarNames().empty() && !kernel::runsOnDevice(function);
  return fits ? function : FuncOp();
}

/// Whether the epilogue reads one number a channel, or one for all.
bool readsNoOtherImage(FuncOp convolution) {
  auto rows = llvm::dyn_cast_if_present<mlir::ArrayAttr>(
      mlir::NamedAttrList(convolution.getSchedule().getShape()).get("epilogueStride"));
  return rows && llvm::all_of(rows.getAsRange<mlir::ArrayAttr>(), [](mlir::ArrayAttr strides) {
           auto row = llvm::dyn_cast<mlir::IntegerAttr>(strides[1]);
           return row && row.getInt() == 0;
         });
}

/// What the bands are: in rows of the convolution's result unless it says otherwise.
struct Bands {
  int64_t count = 0;
  int64_t rows = 0;         ///< of a band
  int64_t kept = 0;         ///< from the band before
  int64_t poolRows = 0;     ///< of the pool's result in a band
  int64_t rowElements = 0;  ///< elements of a row
};

std::optional<Bands> bandsOf(FuncOp pool, BufferType image) {
  const auto number = [&](llvm::StringRef name) { return numberOf(pool, name).value_or(-1); };
  const int64_t in = number("inH"), out = number("outH"), step = number("strideH");
  const int64_t kept = number("kernelH") - step;
  if (number("dilationH") != 1 || kept < 0 || kept != number("padH") || out * step != in) {
    return std::nullopt;
  }
  const llvm::SmallVector<int64_t> extents = image.getStaticExtents();
  const int64_t rowElements = extents[1] * extents[3];
  const int64_t rowBytes = rowElements * image.elementBytes();
  if (in * rowBytes < kLeastBytes) {
    return std::nullopt;
  }
  for (int64_t count = 2; out / count >= kLeastRows; ++count) {
    if (out % count == 0 && in / count * rowBytes <= kBandBytes) {
      return Bands{count, in / count, kept, out / count, rowElements};
    }
  }
  return std::nullopt;
}

/// [1, c, h, w] of numbers without a border, channels innermost.
bool isOneDenseImage(BufferType type) {
  if (!type.isStatic() || type.getRank() != 4 || type.hasBorder()) {
    return false;
  }
  const llvm::SmallVector<int64_t> extents = type.getStaticExtents();
  const int64_t dense[] = {extents[1] * extents[2] * extents[3], 1, extents[1] * extents[3],
                           extents[1]};
  return extents[0] == 1 && llvm::all_of(llvm::zip(type.getStrides(), dense), [](auto pair) {
           return symbolic::constantValue(std::get<0>(pair)) == std::get<1>(pair);
         });
}

/// The convolution that alone writes what `pool` alone reads, directly before it.
LaunchOp convolutionBefore(LaunchOp pool) {
  Value image = pool.getInputs().front();
  LaunchOp convolution;
  for (Operation* user : image.getUsers()) {
    auto launch = llvm::dyn_cast<LaunchOp>(user);
    if (!launch || launch->getBlock() != pool->getBlock()) {
      return {};
    }
    if (launch != pool) {
      if (convolution) {
        return {};
      }
      convolution = launch;
    }
  }
  if (!convolution || !convolution->isBeforeInBlock(pool) || convolution.getOutputs().size() != 1 ||
      convolution.getOutputs().front() != image ||
      llvm::is_contained(convolution.getInputs(), image) || !convolution.getWorkspace().empty()) {
    return {};
  }
  for (Operation* op = convolution->getNextNode(); op != pool; op = op->getNextNode()) {
    auto launch = llvm::dyn_cast<LaunchOp>(op);
    if (!llvm::isa<kernel::SlotOp, kernel::ViewOp>(op) &&
        !(launch && functionOf(launch, "zero_border"))) {
      return {};
    }
  }
  return convolution;
}

class Splitter {
 public:
  Splitter(LaunchOp convolution, LaunchOp pool, const Bands& bands, mlir::SymbolTable& symbols)
      : convolution_(convolution),
        pool_(pool),
        bands_(bands),
        symbols_(symbols),
        builder_(pool),
        image_(llvm::cast<BufferType>(pool.getInputs().front().getType())) {}

  void split() {
    auto convolution = llvm::cast<FuncOp>(convolution_.getEntryOp());
    auto pool = llvm::cast<FuncOp>(pool_.getEntryOp());
    const int64_t step = *numberOf(convolution, "strideH");
    const BufferType read = readType(convolution);
    const Exprs extents = {number(1), image_.getExtents()[1], number(bands_.kept + bands_.rows),
                           image_.getExtents()[3]};
    Value slot = convolution_.getOutputs().front();
    Value band = kernel::SlotOp::create(builder_, slot.getLoc(), imageOf(extents));
    FuncOp computes =
        variant(convolution, "_band", {{"h", numberOfRows(read)}, {"ho", bands_.rows}});
    FuncOp first = variant(pool, "_first", {{"inH", bands_.rows}, {"outH", bands_.poolRows}});
    FuncOp next =
        bands_.kept == 0
            ? first
            : variant(pool, "_band",
                      {{"inH", bands_.kept + bands_.rows}, {"outH", bands_.poolRows}, {"padH", 0}});
    Value fresh = rowsOf(band, bands_.kept, bands_.rows);
    for (int64_t i = 0; i < bands_.count; ++i) {
      if (i > 0 && bands_.kept > 0) {
        keepRows(band);
      }
      launchOf(convolution_, computes,
               viewOf(convolution_.getInputs()[0], read, i * bands_.rows * step), fresh);
      Value to = pool_.getOutputs()[0];
      const BufferType part = withRows(llvm::cast<BufferType>(to.getType()), bands_.poolRows, {});
      launchOf(pool_, i == 0 ? first : next, i == 0 ? fresh : band,
               viewOf(to, part, i * bands_.poolRows));
    }
    pool_.erase();
    convolution_.erase();
    slot.getDefiningOp()->erase();
    for (FuncOp function : {convolution, pool}) {
      if (mlir::SymbolTable::symbolKnownUseEmpty(function, function->getParentOp())) {
        symbols_.erase(function);
      }
    }
  }

 private:
  using Exprs = llvm::SmallVector<mlir::AffineExpr>;

  mlir::AffineExpr number(int64_t value) {
    return mlir::getAffineConstantExpr(value, builder_.getContext());
  }
  static int64_t numberOfRows(BufferType type) { return type.getStaticExtents()[2]; }

  BufferType withRows(BufferType type, int64_t rows, llvm::ArrayRef<int64_t> border) {
    Exprs extents(type.getExtents());
    extents[2] = number(rows);
    return BufferType::get(type.getContext(), type.getNames(), extents, type.getElementType(),
                           type.getStrides(), type.getSpace(), border);
  }

  /// A dense image of these extents, channels innermost.
  BufferType imageOf(const Exprs& extents) {
    const Exprs strides = {extents[1] * extents[2] * extents[3], number(1), extents[1] * extents[3],
                           extents[1]};
    return BufferType::get(image_.getContext(), image_.getNames(), extents, image_.getElementType(),
                           strides, image_.getSpace());
  }

  /// What a band of the convolution reads: its rows with those around them that are the border of
  /// the whole image, or other rows of it.
  BufferType readType(FuncOp convolution) {
    const auto of = [&](llvm::StringRef name) { return *numberOf(convolution, name); };
    auto type = llvm::cast<BufferType>(convolution_.getInputs()[0].getType());
    auto tune = mlir::NamedAttrList(convolution.getSchedule().getTune()).get("kh");
    const int64_t reach = (llvm::cast<mlir::IntegerAttr>(tune).getInt() - 1) * of("dilationH") + 1;
    const int64_t behind = type.hasBorder() ? type.getBorder()[5] : 0;
    const int64_t rows = (bands_.rows - 1) * of("strideH") + reach - of("padH") - behind;
    return withRows(type, rows, type.getBorder());
  }

  /// `rows` of `base` from the row that the view's type says, `first` rows behind its own first.
  Value viewOf(Value base, BufferType type, int64_t first) {
    auto from = llvm::cast<BufferType>(base.getType());
    auto offset =
        kernel::ExtentAttr::get(type.getContext(), from.getNames(), from.getStrides()[2] * first);
    return kernel::ViewOp::create(builder_, pool_.getLoc(), type, base, offset);
  }

  Value rowsOf(Value band, int64_t first, int64_t rows) {
    return first == 0
               ? band
               : viewOf(band, withRows(llvm::cast<BufferType>(band.getType()), rows, {}), first);
  }

  /// `function` with other numbers in its shape.
  FuncOp variant(FuncOp function, llvm::StringRef suffix,
                 llvm::ArrayRef<std::pair<llvm::StringRef, int64_t>> numbers) {
    mlir::OpBuilder builder(function);
    auto made = llvm::cast<FuncOp>(function->clone());
    mlir::NamedAttrList shape(function.getSchedule().getShape());
    for (auto [name, value] : numbers) {
      shape.set(name, builder.getI64IntegerAttr(value));
    }
    // in the order of the family's fields
    llvm::SmallVector<mlir::NamedAttribute> ordered;
    for (mlir::NamedAttribute entry : function.getSchedule().getShape()) {
      ordered.emplace_back(entry.getName(), shape.get(entry.getName()));
    }
    made.setScheduleAttr(kernel::ScheduleAttr::get(builder.getContext(),
                                                   function.getSchedule().getFamily(), ordered,
                                                   function.getSchedule().getTune()));
    made.setSymName((function.getSymName() + suffix).str());
    symbols_.insert(made, function->getIterator());
    return made;
  }

  /// `whole` by another function, with another first input and output.
  void launchOf(LaunchOp whole, FuncOp function, Value input, Value output) {
    auto made = llvm::cast<LaunchOp>(builder_.clone(*whole));
    made.setCalleeAttr(mlir::FlatSymbolRefAttr::get(function.getSymNameAttr()));
    if (std::optional<double> cost = kernel::costUsOf(whole)) {
      kernel::setCostUs(made, *cost / static_cast<double>(bands_.count));
    }
    made.getInputsMutable()[0].assign(input);
    made.getOutputsMutable()[0].assign(output);
  }

  /// The last rows of a band become those before the next.
  void keepRows(Value band) {
    const int64_t elements = bands_.kept * bands_.rowElements;
    const auto line = BufferType::get(image_.getContext(), {}, {number(elements)},
                                      image_.getElementType(), {number(1)}, image_.getSpace());
    const auto at = [&](int64_t row) -> Value {
      auto offset =
          kernel::ExtentAttr::get(line.getContext(), {}, number(row * bands_.rowElements));
      return kernel::ViewOp::create(builder_, pool_.getLoc(), line, band, offset);
    };
    if (!keeps_) {
      keeps_ = copyOf(line, elements);
    }
    Value from = at(bands_.rows), to = at(0);
    auto launch = LaunchOp::create(
        builder_, pool_.getLoc(), mlir::FlatSymbolRefAttr::get(keeps_.getSymNameAttr()), from, to,
        mlir::ValueRange(), pool_.getQueueAttr(), builder_.getI64IntegerAttr(1),
        builder_.getStringAttr("rows of the band before"),
        builder_.getStringAttr("windows of the pool reach into the band before"));
    kernel::setCostUs(launch, 0.0002 * static_cast<double>(elements));
  }

  FuncOp copyOf(BufferType line, int64_t elements) {
    mlir::OpBuilder builder(builder_.getContext());
    const auto one = builder.getI64ArrayAttr({1});
    auto schedule = kernel::ScheduleAttr::get(
        builder.getContext(), builder.getStringAttr("pointwise"),
        {builder.getNamedAttr("extent", builder.getI64ArrayAttr({elements})),
         builder.getNamedAttr("stride", builder.getArrayAttr({one, one}))},
        {builder.getNamedAttr("rank", builder.getI64IntegerAttr(1)),
         builder.getNamedAttr("inputs", builder.getI64IntegerAttr(1))});
    auto function =
        FuncOp::create(builder, builder.getUnknownLoc(), "band_rows", mlir::TypeRange(line),
                       mlir::TypeRange(line), mlir::TypeRange(), schedule, {"body"});
    mlir::Region& region = function.getBodies().front();
    mlir::Block* block = region.empty() ? &region.emplaceBlock() : &region.front();
    Value element = block->addArgument(line.getElementType(), function.getLoc());
    builder.setInsertionPointToEnd(block);
    kernel::YieldOp::create(builder, function.getLoc(), element);
    symbols_.insert(function, pool_.getEntryOp()->getIterator());
    return function;
  }

  LaunchOp convolution_, pool_;
  const Bands bands_;
  mlir::SymbolTable& symbols_;
  mlir::OpBuilder builder_;
  const BufferType image_;
  FuncOp keeps_;
};

struct BandPoolsPass : impl::BandPoolsBase<BandPoolsPass> {
  void runOnOperation() override {
    mlir::SymbolTable symbols(getOperation());
    llvm::SmallVector<LaunchOp> pools;
    getOperation().walk([&](LaunchOp launch) {
      if (functionOf(launch, "pool")) {
        pools.push_back(launch);
      }
    });
    for (LaunchOp pool : pools) {
      split(pool, symbols);
    }
  }

  static void split(LaunchOp pool, mlir::SymbolTable& symbols) {
    FuncOp pools = functionOf(pool, "pool");
    const mlir::NamedAttrList tune(pools.getSchedule().getTune());
    auto kind = llvm::dyn_cast_if_present<mlir::StringAttr>(tune.get("kind"));
    if (!kind || kind.getValue() != "max" || pool.getInputs().size() != 1 ||
        pool.getOutputs().size() != 1) {
      return;
    }
    Value image = pool.getInputs().front();
    auto type = llvm::cast<BufferType>(image.getType());
    auto to = llvm::cast<BufferType>(pool.getOutputs().front().getType());
    if (!image.getDefiningOp<kernel::SlotOp>() || !isOneDenseImage(type) || !to.isStatic() ||
        to.getRank() != 4) {
      return;
    }
    const std::optional<Bands> bands = bandsOf(pools, type);
    LaunchOp before = bands ? convolutionBefore(pool) : LaunchOp();
    FuncOp convolution = before ? functionOf(before, "convolution") : FuncOp();
    if (!convolution || !readsNoOtherImage(convolution) ||
        llvm::cast<BufferType>(before.getInputs().front().getType()).getRank() != 4) {
      return;
    }
    Splitter(before, pool, *bands, symbols).split();
  }
};

}  // namespace

}  // namespace straightline::passes
