// SPDX-License-Identifier: Apache-2.0
// The only reader of backend descriptions (runtime/abi/kernel.h). It makes copies in which every
// struct and every array element has the size that this runtime knows: a longer description loses
// its unknown fields, a shorter one gets the defaults of the missing ones.
#ifndef STRAIGHTLINE_RUNTIME_DESCRIPTION_LOADER_H
#define STRAIGHTLINE_RUNTIME_DESCRIPTION_LOADER_H

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "straightline/abi/straightline.h"

namespace straightline {

class Refusal;  // description_loader.cpp

/// A backend's description with everything that it points to. Text and functions are not
/// copied.
class LoadedBackend {
 public:
  const sl_backend_desc& desc() const { return desc_; }
  /// The description that it was read from.
  const sl_backend_desc* source() const { return source_; }
  /// The plug-in that it is of; null: it came another way.
  const char* file() const { return file_.empty() ? nullptr : file_.c_str(); }
  void setFile(const char* file) { file_ = file ? file : ""; }

 private:
  friend std::unique_ptr<LoadedBackend> loadBackend(const sl_backend_desc*, sl_message*);

  /// Replaces the arrays and the rule that a kernel's description points to by copies; false, with
  /// the reason.
  bool copyWhatItPointsTo(const Refusal& refusal, sl_kernel_desc* kernel);

  const sl_backend_desc* source_ = nullptr;
  std::string file_;
  sl_backend_desc desc_{};
  sl_device_desc device_{};
  std::vector<sl_kernel_desc> kernels_;
  std::deque<std::vector<sl_tunable>> tunables_;
  std::deque<std::vector<sl_operand_facts>> operands_;
  std::deque<std::vector<sl_epilogue>> epilogues_;
  std::deque<sl_calling_rule> rules_;
};

/// Null, with the reason in `message`: the description is of another SL_KERNEL_ABI_VERSION, or
/// lacks what has no default.
std::unique_ptr<LoadedBackend> loadBackend(const sl_backend_desc* backend, sl_message* message);

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_DESCRIPTION_LOADER_H
