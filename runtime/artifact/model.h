// SPDX-License-Identifier: Apache-2.0
// A model as model.cpp makes it and model_calls.cpp calls it.
#ifndef STRAIGHTLINE_RUNTIME_ARTIFACT_MODEL_H
#define STRAIGHTLINE_RUNTIME_ARTIFACT_MODEL_H

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "straightline/abi/model.h"

namespace straightline {

/// One program of a model, with its weights.
struct Program {
  sl_program* program = nullptr;
  sl_weights* weights = nullptr;
  std::vector<std::string> names;  ///< of its parameters
  int32_t variant = 0;
  std::vector<const sl_buffer*> inputs, outputs;
  bool hasComputedSizes = false;  ///< an output's size is known after the run alone
  std::vector<bool> isWritten;    ///< of each input: the program updates it in place
  bool writesInputs = false;
};

}  // namespace straightline

/// Immutable but for `streams`.
struct sl_model {
  sl_artifact* artifact = nullptr;
  sl_model_options options{};
  /// Those that a call tries. With slots they are those of one combination of targets, and `every`
  /// has the programs of all; both hold references.
  std::vector<straightline::Program> programs;
  std::vector<straightline::Program> every;
  size_t choice = 0;          ///< number of that combination
  sl_queue* queue = nullptr;  ///< a team, or a queue of the device
  sl_queue* team = nullptr;
  bool onDevice = false;
  const char* backend = "";            ///< of the device's queues
  std::mutex mutex;                    ///< of `streams`
  std::map<void*, sl_queue*> streams;  ///< queues over callers' streams
  std::string name;
  std::string text;
  std::map<const sl_expr*, std::string> sizes;  ///< texts of sl_model_size, of those that need one

  ~sl_model() {
    for (auto* list : {&programs, &every}) {
      for (straightline::Program& program : *list) {
        sl_weights_release(program.weights);
        sl_program_release(program.program);
      }
    }
    for (const auto& [stream, adopted] : streams) {
      sl_queue_release(adopted);
    }
    if (onDevice && queue) {
      sl_queue_release(queue);
    }
    sl_artifact_release(artifact);
  }
};

#endif  // STRAIGHTLINE_RUNTIME_ARTIFACT_MODEL_H
