// SPDX-License-Identifier: Apache-2.0
// What an artifact's manifest.json says, as far as loading needs it. docs/design/artifacts.md has
// the format.
#ifndef STRAIGHTLINE_RUNTIME_ARTIFACT_MANIFEST_H
#define STRAIGHTLINE_RUNTIME_ARTIFACT_MANIFEST_H

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "straightline/abi/straightline.h"

namespace straightline {

/// The versions of the format that this runtime reads, both included.
constexpr uint64_t kOldestArtifactFormat = 1;
constexpr uint64_t kArtifactFormat = 3;

struct FileFacts {
  uint64_t bytes = 0;
  std::string digest;  ///< XXH3-128, 32 hexadecimal digits
};

/// A function of a user's own library that the code calls.
struct OwnLibrary {
  std::string symbol;    ///< what the code calls it
  std::string function;  ///< in the library
  std::string library;   ///< path of the library when the model was saved
  std::string digest;    ///< XXH3-128 of the library
  std::string file;      ///< the library in the artifact; "": the path is opened
};

/// Code of a program for one kind of processor or device.
struct Variant {
  std::string target;                         ///< "cpu", "cuda:sm_90" or "cuda:compute_80" (PTX)
  std::string cpu;                            ///< of the host's part
  std::vector<std::string> features;          ///< that `cpu` needs
  std::string code;                           ///< file
  std::map<std::string, std::string> images;  ///< file by name of the image
  int32_t imageCompiler = 0;
  std::vector<std::string> parameters;  ///< names in the program's order
  std::string prepared;                 ///< file; "": prepare runs at load
  bool sharesFile = false;  ///< `prepared` is that of several programs: it may be longer
  std::vector<OwnLibrary> ownLibraries;
  bool isReplaced = false;  ///< its Python text was replaced: the code is not what it does
};

/// An op with several targets, among which calls choose.
struct ManifestSlot {
  std::string op;
  std::vector<std::string> targets;
};

struct Manifest {
  std::string name;
  /// The programs of each combination of targets follow each other; of the last slot's targets
  /// first.
  std::vector<ManifestSlot> slots;
  size_t choices = 1;           ///< how many combinations there are
  bool sharesPrepared = false;  ///< programs of the same example share prepared data
  std::map<std::string, FileFacts> files;
  std::vector<std::vector<Variant>> programs;
  std::string weights;  ///< file; "": there are none

  /// False with a message that begins with `path`.
  bool read(std::string_view text, const char* path, sl_message* message);
};

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_ARTIFACT_MANIFEST_H
