// SPDX-License-Identifier: Apache-2.0
#include "codegen/explain.h"

#include "codegen/own_calls.h"
#include "codegen/own_source.h"

#include "codegen/cpp_text.h"
#include "codegen/program_index.h"
#include "dialect/kernel/own.h"
#include "dialect/kernel/recorded.h"
#include "dialect/kernel/shared_prepared.h"
#include "dialect/op/recorded.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/JSON.h"

namespace straightline::codegen {

namespace {

namespace json = llvm::json;

class Explainer {
 public:
  explicit Explainer(kernel::ProgramOp program)
      : program_(program), index_(program), bounds_(program.getExtentBounds()) {}

  json::Object explain() {
    json::Array statements;
    for (const StatementLine& line : index_.statements()) {
      if (std::optional<json::Object> row = statement(line)) {
        statements.push_back(std::move(*row));
      }
    }
    std::vector<std::string> parameters(index_.count(SL_ROLE_PARAMETER) +
                                        index_.count(SL_ROLE_STATE));
    int64_t parameterBytes = 0;
    for (const BufferLine& buffer : index_.buffers()) {
      if (buffer.role == SL_ROLE_PARAMETER || buffer.role == SL_ROLE_STATE) {
        parameters[buffer.index] = buffer.source;
        parameterBytes += bytesOf(buffer.value);
      }
    }
    json::Object result;
    result["inputs"] = tensors(inputs());
    result["results"] = tensors(results());
    result["named_sizes"] = namedSizes();
    result["name"] = program_.getSymName();
    result["target"] = program_.getTarget().getCpu();
    result["threads"] = program_.getTarget().getThreads();
    result["arena_bytes"] = arenaBytes_;
    result["prepared_bytes"] = preparedBytes();
    if (json::Array shared = sharedBuffers(); !shared.empty()) {
      result["prepared"] = std::move(shared);
    }
    result["parameter_bytes"] = parameterBytes;
    result["parameters"] = json::Array(parameters);
    result["kept_parameters"] = keptParameters();
    result["estimated_us"] = estimatedUs_;
    result["statements"] = std::move(statements);
    return result;
  }

 private:
  /// Parameters that `run` reads unchanged and that are not results. A set of weights that must not
  /// change with the framework's tensors has to copy these. Nothing reads the other parameters
  /// after `prepare`.
  json::Array keptParameters() {
    json::Array names;
    for (auto parameter : program_.getBodyBlock()->getOps<kernel::ParameterOp>()) {
      bool read = false;
      bool returned = false;
      llvm::SmallVector<mlir::Value> aliases = {parameter.getBuffer()};
      while (!aliases.empty()) {
        for (mlir::Operation* user : aliases.pop_back_val().getUsers()) {
          if (auto view = llvm::dyn_cast<kernel::ViewOp>(user)) {
            aliases.push_back(view.getResult());
          } else {
            returned |= llvm::isa<kernel::ReturnOp>(user);
            read |= program_.getRunOp()->isAncestor(user);
          }
        }
      }
      if (read && !returned) {
        names.push_back(parameter.getName());
      }
    }
    return names;
  }

  /// In the order of the program's description.
  json::Array namedSizes() {
    json::Array rows;
    for (kernel::ExtentOp extent : index_.extents()) {
      rows.push_back(json::Object{{"name", extent.getSymName()},
                                  {"min", extent.getMin()},
                                  {"max", extent.getMax()},
                                  {"depends_on_data", extent.getBoundAttr() != nullptr}});
    }
    return rows;
  }

  /// The program's arguments in order.
  std::vector<mlir::Value> inputs() {
    std::vector<mlir::Value> values(index_.count(SL_ROLE_INPUT));
    for (const BufferLine& buffer : index_.buffers()) {
      if (buffer.role == SL_ROLE_INPUT) {
        values[buffer.index] = buffer.value;
      }
    }
    return values;
  }

  /// Its results for the user, in order.
  std::vector<mlir::Value> results() {
    for (const StatementLine& line : index_.statements()) {
      if (line.kind == SL_STATEMENT_RETURN && line.phase == 1) {
        return {line.op->operand_begin(), line.op->operand_end()};
      }
    }
    return {};
  }

  json::Array tensors(const std::vector<mlir::Value>& values) {
    json::Array rows;
    for (mlir::Value value : values) {
      auto type = llvm::cast<kernel::BufferType>(value.getType());
      std::string element;
      llvm::raw_string_ostream(element) << type.getElementType();
      json::Array shape;
      for (mlir::AffineExpr extent : type.getExtents()) {
        shape.push_back(numberOrText(extent, type.getNames()));
      }
      const BufferLine& line = index_.buffers()[index_.bufferNumber(value)];
      rows.push_back(
          json::Object{{"name", line.source}, {"type", element}, {"shape", std::move(shape)}});
    }
    return rows;
  }

  /// An expression over named extents as text.
  static json::Value numberOrText(mlir::AffineExpr expr, llvm::ArrayRef<mlir::StringAttr> names) {
    if (std::optional<int64_t> number = symbolic::constantValue(expr)) {
      return *number;
    }
    std::string text;
    llvm::raw_string_ostream stream(text);
    symbolic::printExpr(stream, expr, names);
    return text;
  }
  static json::Value numberOrText(kernel::ExtentAttr extent) {
    return numberOrText(extent.getExpr(), extent.getNames());
  }

  /// Bytes at the upper bounds of the named extents; 0 for a handle.
  int64_t bytesOf(mlir::Value value) {
    auto type = llvm::dyn_cast<kernel::BufferType>(value.getType());
    return type ? upper(type.bytes(), type.getNames()) : 0;
  }

  int64_t upper(mlir::AffineExpr expr, llvm::ArrayRef<mlir::StringAttr> names) {
    std::optional<symbolic::Bounds> bounds = symbolic::bounds(expr, names, bounds_);
    return bounds ? bounds->highest : -1;
  }

  int64_t preparedBytes() {
    int64_t end = 0;
    for (auto prepared : program_.getBodyBlock()->getOps<kernel::PreparedOp>()) {
      end = std::max(end, endOf(prepared.getOffsetAttr(), prepared.getBuffer()));
    }
    return end;
  }

  /// Prepared buffers that other programs may share, as share-prepared takes them.
  json::Array sharedBuffers() {
    json::Array rows;
    for (auto prepared : program_.getBodyBlock()->getOps<kernel::PreparedOp>()) {
      if (const llvm::StringRef digest = kernel::madeBy(prepared); !digest.empty()) {
        auto type = llvm::cast<kernel::BufferType>(prepared.getBuffer().getType());
        const int64_t bytes = bytesOf(prepared.getBuffer());
        rows.push_back((digest + " " + type.getSpace() + " " +
                        llvm::Twine(endOf(prepared.getOffsetAttr(), prepared.getBuffer()) - bytes) +
                        " " + llvm::Twine(bytes))
                           .str());
      }
    }
    return rows;
  }

  int64_t endOf(kernel::ExtentAttr offset, mlir::Value buffer) {
    return (offset ? upper(offset.getExpr(), offset.getNames()) : 0) + bytesOf(buffer);
  }

  /// Nullopt for statements that do no work: views, sizes, the ends of regions.
  std::optional<json::Object> statement(const StatementLine& line) {
    auto call = llvm::dyn_cast<kernel::KernelCallInterface>(line.op);
    auto copy = llvm::dyn_cast<kernel::CopyOp>(line.op);
    if (line.kind == SL_STATEMENT_BARRIER) {
      return std::nullopt;
    }
    if (!call && !copy) {
      return std::nullopt;
    }
    json::Object row;
    row["phase"] = line.phase == 0 ? "prepare" : "run";
    row["source"] = sourceOf(line.op->getLoc());
    auto text = [&](llvm::StringRef name) {
      auto value = line.op->getAttrOfType<mlir::StringAttr>(name);
      return value ? value.getValue() : llvm::StringRef();
    };
    row["op"] = text("op");
    row["why"] = text("why");
    if (const llvm::StringRef key = kernel::choiceKeyOf(line.op); !key.empty()) {
      row["choice"] = key;
    }
    row["rule"] = kernel::ruleOf(line.op);
    row["alternatives"] = alternativesOf(line.op);
    int64_t bytes = 0;
    for (mlir::Value operand : line.op->getOperands()) {
      if (llvm::isa<kernel::BufferType>(operand.getType())) {
        bytes += bytesOf(operand);
        noteArena(operand, line.phase);
      }
    }
    row["bytes"] = bytes;
    row["kernel"] = call ? call.getEntry().getValue() : llvm::StringRef("copy");
    auto function = call ? llvm::dyn_cast_if_present<kernel::FuncOp>(
                               kernel::lookupEntry(line.op, call.getEntry()))
                         : kernel::FuncOp();
    row["family"] = function ? function.getSchedule().getFamily().getValue() : llvm::StringRef();
    if (function && !kernel::partsOf(function).empty()) {
      row["parts"] = partsOf(function);
    }
    if (auto branch = line.op->getAttrOfType<mlir::IntegerAttr>(kernel::kBranchAttr)) {
      row["branch"] = branch.getInt();
    }
    if (function && kernel::runsOnDevice(function)) {
      row["blocks"] = numberOrText(kernel::blocksOf(function));
      row["block_threads"] =
          function->getAttrOfType<mlir::IntegerAttr>(kernel::kThreadsAttr).getInt();
      noteMoreBlocks(function, &row);
    }
    if (auto decl =
            call ? llvm::dyn_cast_if_present<kernel::DeclOp>(call.getEntryOp()) : kernel::DeclOp();
        decl && isOwnKernel(decl)) {
      row["symbol"] = decl.getRun();
    }
    row["backend"] = call ? backendOf(call.getEntryOp()) : "runtime";
    if (json::Array names = capturedAgainFor(line); !names.empty()) {
      row["captured_again"] = std::move(names);
    }
    if (line.phase == 1) {
      estimatedUs_ += kernel::costUsOf(line.op).value_or(0);
    }
    return row;
  }

  /// Blocks in y and z of a user's machine code whose grid has them.
  static void noteMoreBlocks(kernel::FuncOp function, json::Object* row) {
    if (!kernel::isOwnImage(function)) {
      return;
    }
    const OwnImage image = ownImageOf(function);
    json::Array more{numberOrText(image.blocksY), numberOrText(image.blocksZ)};
    if (more != json::Array{1, 1}) {
      (*row)["more_blocks"] = std::move(more);
    }
  }

  /// What other kernels said, as {"kernel", "us" (null: it does not take the problem), "said",
  /// "op"}.
  static json::Array alternativesOf(mlir::Operation* statement) {
    json::Array rows;
    const mlir::ArrayAttr alternatives = kernel::alternativesOf(statement);
    auto ops = statement->getAttrOfType<mlir::StringAttr>("op");
    const llvm::StringRef statementOp = ops ? ops.getValue().split(", ").first : llvm::StringRef();
    for (mlir::Attribute each :
         alternatives ? alternatives.getValue() : llvm::ArrayRef<mlir::Attribute>()) {
      auto row = llvm::cast<mlir::DictionaryAttr>(each);
      auto us = row.getAs<mlir::FloatAttr>("us");
      auto op = row.getAs<mlir::StringAttr>("op");
      rows.push_back(
          json::Object{{"kernel", row.getAs<mlir::StringAttr>("kernel").getValue()},
                       {"us", us ? json::Value(us.getValueAsDouble()) : json::Value(nullptr)},
                       {"said", json::fixUTF8(row.getAs<mlir::StringAttr>("said").getValue())},
                       {"op", op ? op.getValue() : statementOp}});
    }
    return rows;
  }

  /// The kernels of a launch that has several, in the order of their blocks.
  static json::Array partsOf(kernel::FuncOp function) {
    json::Array parts;
    for (kernel::FuncOp part : kernel::partsOf(function)) {
      parts.push_back(json::Object{{"kernel", part.getSymName()},
                                   {"family", part.getSchedule().getFamily().getValue()},
                                   {"blocks", numberOrText(kernel::blocksOf(part))}});
    }
    return parts;
  }

  /// Names of inputs and results whose addresses a library gets. When one of these addresses is
  /// new, a device's graph captures the library's part again.
  json::Array capturedAgainFor(const StatementLine& line) {
    json::Array names;
    auto call = llvm::dyn_cast<kernel::CallOp>(line.op);
    auto declared =
        call ? llvm::dyn_cast_if_present<kernel::DeclOp>(call.getEntryOp()) : kernel::DeclOp();
    if (!declared || !declared->hasAttr(kernel::kRunsOnAttr) || !declared.getPlan() ||
        line.phase != 1) {
      return names;
    }
    llvm::SmallSetVector<mlir::Value, 4> roots;
    for (mlir::Value operand : line.op->getOperands()) {
      if (llvm::isa<kernel::BufferType>(operand.getType())) {
        roots.insert(kernel::storageRoot(operand));
      }
    }
    for (mlir::Value root : roots) {
      const BufferLine& buffer = index_.buffers()[index_.bufferNumber(root)];
      if (buffer.role == SL_ROLE_INPUT || buffer.role == SL_ROLE_OUTPUT) {
        names.push_back(buffer.source);
      }
    }
    return names;
  }

  void noteArena(mlir::Value buffer, int phase) {
    auto slot = kernel::storageRoot(buffer).getDefiningOp<kernel::SlotOp>();
    if (slot && phase == 1) {
      arenaBytes_ = std::max(arenaBytes_, endOf(slot.getOffsetAttr(), slot.getBuffer()));
    }
  }

  kernel::ProgramOp program_;
  ProgramIndex index_;
  symbolic::BoundsMap bounds_;
  int64_t arenaBytes_ = 0;
  double estimatedUs_ = 0;
};

/// The candidates that select_kernels listed for a measurement.
json::Array listOfCandidates(llvm::ArrayRef<op::MeasurementAttr> listed) {
  json::Array rows;
  for (op::MeasurementAttr row : listed) {
    json::Array candidates;
    for (auto candidate : row.getCandidates().getAsRange<mlir::StringAttr>()) {
      candidates.push_back(candidate.getValue());
    }
    rows.push_back(json::Object{{"key", row.getKey().getValue()},
                                {"module", row.getModule().getValue()},
                                {"candidates", std::move(candidates)},
                                {"at_edge_us", json::Array(row.getAtEdgeUs().asArrayRef())}});
  }
  return rows;
}

}  // namespace

std::string explainProgram(mlir::ModuleOp module) {
  std::string text;
  for (auto program : module.getOps<kernel::ProgramOp>()) {
    json::Object facts = Explainer(program).explain();
    if (const auto candidates = op::candidatesOf(module)) {
      facts["candidates"] = listOfCandidates(*candidates);
    }
    llvm::raw_string_ostream(text) << json::Value(std::move(facts));
  }
  return text;
}

double estimatedUs(mlir::ModuleOp module) {
  double sum = 0;
  for (auto program : module.getOps<kernel::ProgramOp>()) {
    sum += Explainer(program).explain().getNumber("estimated_us").value_or(0);
  }
  return sum;
}

}  // namespace straightline::codegen
