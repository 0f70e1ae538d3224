// SPDX-License-Identifier: Apache-2.0
// Several programs over one set of prepared data: names what makes each prepared buffer, takes what
// a program before this one has made, and places the rest behind.
//
//   kernel.prepared "w.packed"                    before: "9f..c2 host 0 4608", made by pack of "w"
//   kernel.launch @pack(%w) outs(%w_packed)
//     ->  kernel.prepared "w.packed" offset(0) {kernel.made_by = "9f..c2"}, and no launch
//
// What makes a buffer is a text: the functions that write it, in order, with their operands, down
// to parameters and literals. Equal texts give equal bytes, because statements of prepare read
// nothing else. It stands in the module as a digest.
#include "dialect/kernel/recorded.h"
#include "dialect/kernel/shared_prepared.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/MathExtras.h"
#include "passes/live_ranges.h"
#include "passes/sharing/passes.h"

namespace straightline::passes {

#define GEN_PASS_DEF_SHAREPREPARED
#include "passes/sharing/passes.h.inc"

namespace {

using mlir::Operation;
using mlir::Value;

constexpr int64_t kAlignment = 64;

/// A buffer that a program before this one prepares.
struct Made {
  std::string space;
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// What a launch or a copy writes; nothing for other statements.
llvm::SmallVector<Value> writtenBy(Operation* statement) {
  if (auto launch = llvm::dyn_cast<kernel::LaunchOp>(statement)) {
    llvm::SmallVector<Value> written(launch.getOutputs());
    llvm::append_range(written, launch.getWorkspace());
    return written;
  }
  auto copy = llvm::dyn_cast<kernel::CopyOp>(statement);
  return copy ? llvm::SmallVector<Value>{copy.getDestination()} : llvm::SmallVector<Value>{};
}

llvm::SmallVector<Value> readBy(Operation* statement) {
  if (auto launch = llvm::dyn_cast<kernel::LaunchOp>(statement)) {
    return llvm::SmallVector<Value>(launch.getInputs());
  }
  return {llvm::cast<kernel::CopyOp>(statement).getSource()};
}

std::string printed(Operation* op) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  op->print(stream, mlir::OpPrintingFlags().assumeVerified());
  return text;
}

std::string printed(mlir::Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

std::string printed(mlir::Attribute attribute) {
  std::string text;
  llvm::raw_string_ostream(text) << attribute;
  return text;
}

/// A function without its name.
std::string textOf(kernel::FuncOp function) {
  const mlir::StringAttr name = function.getSymNameAttr();
  function.setSymName("kernel");
  std::string text = printed(function.getOperation());
  function.setSymNameAttr(name);
  return text;
}

/// What makes each buffer of a program's prepare.
class Makers {
 public:
  explicit Makers(kernel::PrepareOp prepare) : block_(prepare.getBody().front()) {}

  /// 32 hexadecimal digits; empty where something else than launches and copies makes it.
  std::string digestOf(Value root) {
    const std::string* text = textOfRoot(root);
    if (!text) {
      return "";
    }
    const auto hash = llvm::BLAKE3::hash<16>(
        llvm::ArrayRef<uint8_t>(reinterpret_cast<const uint8_t*>(text->data()), text->size()));
    return llvm::toHex(hash, /*LowerCase=*/true);
  }

 private:
  /// Null: it cannot be told.
  const std::string* textOfRoot(Value root) {
    auto [found, isNew] = texts_.try_emplace(root);
    if (isNew) {  // while it is computed it is unknown: what reads itself is not told
      if (std::optional<std::string> text = tell(root)) {
        texts_[root] = std::make_unique<std::string>(std::move(*text));
      }
    }
    return texts_[root].get();
  }

  std::optional<std::string> tell(Value root) {
    Operation* owner = root.getDefiningOp();
    const std::string type = printed(root.getType());
    if (!owner) {
      return std::nullopt;
    }
    if (auto parameter = llvm::dyn_cast<kernel::ParameterOp>(owner)) {
      return "parameter " + parameter.getName().str() + " " + type;
    }
    if (auto constant = llvm::dyn_cast<kernel::ConstantOp>(owner)) {
      return "constant " + printed(constant.getValue()) + " " + type;
    }
    if (!llvm::isa<kernel::PreparedOp, kernel::SlotOp>(owner)) {
      return std::nullopt;
    }
    std::string text = "made " + type;
    for (Operation& statement : block_) {
      if (!llvm::is_contained(LiveRanges::users(root), &statement)) {
        continue;
      }
      const bool writes = llvm::any_of(writtenBy(&statement),
                                       [&](Value to) { return kernel::storageRoot(to) == root; });
      if (!llvm::isa<kernel::LaunchOp, kernel::CopyOp>(statement)) {
        if (!llvm::isa<kernel::PlanOp>(statement)) {  // which reads constants alone
          return std::nullopt;
        }
      } else if (writes) {
        std::optional<std::string> one = tellStatement(&statement);
        if (!one) {
          return std::nullopt;
        }
        text += "; " + *one;
      }
    }
    return text;
  }

  std::optional<std::string> tellStatement(Operation* statement) {
    std::string text = "copy";
    if (auto launch = llvm::dyn_cast<kernel::LaunchOp>(statement)) {
      auto function = llvm::dyn_cast_if_present<kernel::FuncOp>(launch.getEntryOp());
      if (!function || !launch.getWorkspace().empty() || !kernel::partsOf(function).empty()) {
        return std::nullopt;
      }
      text = textOf(function);
      text += launch.getSizesAttr() ? printed(launch.getSizesAttr()) : "";
    }
    for (Value input : readBy(statement)) {
      std::optional<std::string> one = tellOperand(input, /*isRead=*/true);
      if (!one) {
        return std::nullopt;
      }
      text += " in(" + *one + ")";
    }
    for (Value output : writtenBy(statement)) {
      text += " out(" + *tellOperand(output, /*isRead=*/false) + ")";
    }
    return text;
  }

  /// The way through views, and, of what is read, what made the storage.
  std::optional<std::string> tellOperand(Value value, bool isRead) {
    std::string text = printed(value.getType());
    while (auto view = value.getDefiningOp<kernel::ViewOp>()) {
      if (!view.getIndices().empty()) {
        return std::nullopt;
      }
      text += " of " + printed(view.getOffsetAttr()) + printed(view.getBase().getType());
      value = view.getBase();
    }
    if (!isRead) {
      return text;
    }
    const std::string* made = textOfRoot(value);
    return made ? std::optional(text + " of [" + *made + "]") : std::nullopt;
  }

  mlir::Block& block_;
  llvm::DenseMap<Value, std::unique_ptr<std::string>> texts_;
};

class Sharer {
 public:
  Sharer(kernel::ProgramOp program, const llvm::StringMap<Made>& before)
      : program_(program), before_(before) {
    for (const auto& entry : before) {
      int64_t& end = ends_[entry.second.space];
      end = std::max<int64_t>(end,
                              llvm::alignTo(entry.second.offset + entry.second.bytes, kAlignment));
    }
  }

  void run() {
    kernel::PrepareOp prepare = program_.getPrepareOp();
    if (!prepare) {
      return;
    }
    Makers makers(prepare);
    for (auto prepared : program_.getBodyBlock()->getOps<kernel::PreparedOp>()) {
      place(prepared, makers.digestOf(prepared.getBuffer()));
    }
    eraseMakers(prepare.getBody().front());
  }

 private:
  void place(kernel::PreparedOp prepared, const std::string& digest) {
    auto type = llvm::cast<kernel::BufferType>(prepared.getBuffer().getType());
    const int64_t bytes = *symbolic::constantValue(type.bytes());
    const auto found = digest.empty() ? before_.end() : before_.find(digest);
    int64_t offset = 0;
    if (found != before_.end() && found->second.bytes == bytes &&
        found->second.space == type.getSpace()) {
      offset = found->second.offset;
      made_.insert(prepared.getBuffer());
    } else {
      int64_t& end = ends_[type.getSpace()];
      offset = end;
      end += llvm::alignTo(bytes, kAlignment);
    }
    prepared.setOffsetAttr(kernel::ExtentAttr::get(program_.getContext(), offset));
    if (!digest.empty()) {
      kernel::setMadeBy(prepared, digest);
    }
  }

  /// From the last statement to the first: what writes only buffers that are there, or slots that
  /// nothing reads any more.
  void eraseMakers(mlir::Block& block) {
    for (Operation& statement : llvm::make_early_inc_range(llvm::reverse(block))) {
      if (llvm::isa<kernel::ViewOp>(statement) && statement.use_empty()) {
        statement.erase();
        continue;
      }
      const llvm::SmallVector<Value> written = writtenBy(&statement);
      if (!written.empty() && llvm::all_of(written, [&](Value to) { return isDead(to); })) {
        auto launch = llvm::dyn_cast<kernel::LaunchOp>(statement);
        Operation* function = launch ? launch.getEntryOp() : nullptr;
        statement.erase();
        if (function && mlir::SymbolTable::symbolKnownUseEmpty(function, program_->getParentOp())) {
          function->erase();
        }
      }
    }
  }

  bool isDead(Value written) const {
    const Value root = kernel::storageRoot(written);
    if (made_.contains(root)) {
      return true;
    }
    return root.getDefiningOp<kernel::SlotOp>() &&
           llvm::all_of(LiveRanges::users(root), [&](Operation* user) {
             const llvm::SmallVector<Value> own = writtenBy(user);
             return !own.empty() && llvm::none_of(readBy(user), [&](Value from) {
               return kernel::storageRoot(from) == root;
             });
           });
  }

  kernel::ProgramOp program_;
  const llvm::StringMap<Made>& before_;
  llvm::StringMap<int64_t> ends_;  ///< by memory space
  llvm::DenseSet<Value> made_;     ///< by a program before
};

struct SharePreparedPass : impl::SharePreparedBase<SharePreparedPass> {
  using SharePreparedBase::SharePreparedBase;

  void runOnOperation() override {
    llvm::StringMap<Made> made;
    for (const std::string& row : before) {
      llvm::SmallVector<llvm::StringRef> words;
      llvm::StringRef(row).split(words, ' ');
      Made one;
      if (words.size() != 4 || words[2].getAsInteger(10, one.offset) ||
          words[3].getAsInteger(10, one.bytes)) {
        getOperation().emitError()
            << "share-prepared: '" << row << "' is not a digest, a space, an offset and bytes";
        return signalPassFailure();
      }
      one.space = words[1].str();
      made[words[0]] = one;
    }
    for (auto program : getOperation().getOps<kernel::ProgramOp>()) {
      Sharer(program, made).run();
    }
  }
};

}  // namespace

}  // namespace straightline::passes
