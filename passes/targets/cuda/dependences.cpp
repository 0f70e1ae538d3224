// SPDX-License-Identifier: Apache-2.0
#include "passes/targets/cuda/dependences.h"

namespace straightline::passes {

namespace {

struct Past {
  unsigned statement;
  Access access;
};

}  // namespace

std::vector<llvm::BitVector> dependencesOf(llvm::ArrayRef<llvm::SmallVector<Access>> statements) {
  std::vector<llvm::BitVector> all;
  // by storage: reads, writes
  llvm::DenseMap<mlir::Value, std::pair<llvm::SmallVector<Past>, llvm::SmallVector<Past>>> past;
  for (auto [number, accesses] : llvm::enumerate(statements)) {
    llvm::BitVector& found = all.emplace_back(static_cast<unsigned>(statements.size()));
    for (const Access& access : accesses) {
      auto& [reads, writes] = past[access.root];
      const auto look = [&](llvm::ArrayRef<Past> earlier) {
        for (const Past& other : earlier) {
          if (!found.test(other.statement) &&
              kernel::mayOverlap(other.access.buffer, access.buffer)) {
            found.set(other.statement);
          }
        }
      };
      look(writes);
      if (access.writes) {
        look(reads);
      }
    }
    for (const Access& access : accesses) {
      auto& [reads, writes] = past[access.root];
      (access.writes ? writes : reads).push_back({static_cast<unsigned>(number), access});
    }
  }
  return all;
}

}  // namespace straightline::passes
