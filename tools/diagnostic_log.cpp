// SPDX-License-Identifier: Apache-2.0
#include "tools/diagnostic_log.h"

namespace straightline {
namespace {

std::string fileName(mlir::FileLineColLoc location) {
  return location.getFilename().str() + ":" + std::to_string(location.getLine());
}

const char* severityText(mlir::DiagnosticSeverity severity) {
  switch (severity) {
    case mlir::DiagnosticSeverity::Error:
      return "";
    case mlir::DiagnosticSeverity::Warning:
      return "warning: ";
    case mlir::DiagnosticSeverity::Remark:
      return "remark: ";
    case mlir::DiagnosticSeverity::Note:
      return "note: ";
  }
  return "";
}

}  // namespace

std::string describeLocation(mlir::Location location) {
  if (auto name = llvm::dyn_cast<mlir::NameLoc>(location)) {
    const std::string child = describeLocation(name.getChildLoc());
    return name.getName().str() + (child.empty() ? "" : " (" + child + ")");
  }
  if (auto file = llvm::dyn_cast<mlir::FileLineColLoc>(location)) {
    return fileName(file);
  }
  if (auto call = llvm::dyn_cast<mlir::CallSiteLoc>(location)) {
    return describeLocation(call.getCallee());
  }
  if (auto fused = llvm::dyn_cast<mlir::FusedLoc>(location)) {
    std::string text;
    for (mlir::Location part : fused.getLocations()) {
      const std::string one = describeLocation(part);
      text += (text.empty() || one.empty() ? "" : ", ") + one;
    }
    return text;
  }
  return "";
}

DiagnosticLog::DiagnosticLog(mlir::MLIRContext* context)
    : handler_(context, [this](mlir::Diagnostic& diagnostic) { add(diagnostic); }) {}

void DiagnosticLog::add(mlir::Diagnostic& diagnostic) {
  if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Remark) {
    return;
  }
  const auto line = [](std::string* text, mlir::Diagnostic& part, llvm::StringRef indent) {
    const std::string place = describeLocation(part.getLocation());
    *text += (text->empty() ? "" : "\n") + indent.str() + (place.empty() ? "" : place + ": ") +
             severityText(part.getSeverity()) + part.str();
  };
  bool isForUsers = false;
  if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error) {
    const ErrorKind kind = errorKindOf(diagnostic);
    isForUsers = kind != ErrorKind::internal;
    invalid_ = invalid_ || kind == ErrorKind::user;
    if (!isForUsers && !other_) {
      other_ = true;
      line(&first_, diagnostic, "");
      first_ = llvm::StringRef(first_).split('\n').first.str();
    }
  }
  line(&text_, diagnostic, "");
  if (isForUsers) {
    line(&words_, diagnostic, "");
  }
  for (mlir::Diagnostic& note : diagnostic.getNotes()) {
    line(&text_, note, "  ");
    if (isForUsers && !llvm::StringRef(note.str()).starts_with("see current operation")) {
      line(&words_, note, "  ");
    }
  }
}

Failure DiagnosticLog::failure(ErrorKind fallback, const std::string& head) const {
  if (!other_ && !words_.empty()) {
    return {invalid_ ? ErrorKind::user : ErrorKind::unsupported, words_};
  }
  const bool isOurs = fallback == ErrorKind::internal;
  const std::string& shown = isOurs && !first_.empty() ? first_ : text_;
  Failure failure{fallback, head + (shown.empty() ? "" : (isOurs ? ": " : ":\n") + shown)};
  failure.details = isOurs ? text_ : "";
  return failure;
}

}  // namespace straightline
