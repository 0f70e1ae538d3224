// SPDX-License-Identifier: Apache-2.0
// Settings of the environment for every compilation: a log and a dump. Read once when a compilation
// begins.
#ifndef STRAIGHTLINE_TOOLS_SETTINGS_H
#define STRAIGHTLINE_TOOLS_SETTINGS_H

#include <string>

#include "tools/failure.h"

namespace straightline {

/// Topics of STRAIGHTLINE_LOG.
struct LogTopics {
  bool route = false;    ///< each kernel with the reasons for it and against its rivals
  bool passes = false;   ///< each pass with its time and the ops before and after it
  bool codegen = false;  ///< each unit of emitted text with the time that it took
  bool cache = false;    ///< hits, stores and evictions of the disk cache
};

struct Settings {
  LogTopics log;
  std::string dump;  ///< folder that gets every level of every compilation; "": none
};

/// The user's error for a value that is not among the valid ones, which it names.
Failure readSettings(Settings* settings);

/// One line to standard error, whole even when other threads write too: "straightline TOPIC: TEXT".
void logLine(const char* topic, const std::string& text);

}  // namespace straightline

#endif  // STRAIGHTLINE_TOOLS_SETTINGS_H
