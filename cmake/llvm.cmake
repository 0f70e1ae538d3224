# Finds Debian's LLVM, MLIR and clang (version in llvm_version.txt) and makes their static targets link statically:
# Debian's exported targets pull the shared libraries in, which would clash with another LLVM in the same process.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/llvm_version.txt SL_LLVM_VERSION LIMIT_COUNT 1)
string(REGEX MATCH "^[0-9]+" SL_LLVM_MAJOR "${SL_LLVM_VERSION}")
set(SL_LLVM_ROOT "/usr/lib/llvm-${SL_LLVM_MAJOR}" CACHE PATH "Prefix of the LLVM installation")

find_package(MLIR ${SL_LLVM_VERSION} REQUIRED CONFIG PATHS ${SL_LLVM_ROOT}/lib/cmake/mlir NO_DEFAULT_PATH)
find_package(Clang ${SL_LLVM_VERSION} REQUIRED CONFIG PATHS ${SL_LLVM_ROOT}/lib/cmake/clang NO_DEFAULT_PATH)
find_package(LLD ${SL_LLVM_VERSION} REQUIRED CONFIG PATHS ${SL_LLVM_ROOT}/lib/cmake/lld NO_DEFAULT_PATH)
find_library(SL_ZLIB NAMES libz.a REQUIRED)

# Shared libraries are stripped from INTERFACE_LINK_LIBRARIES; the LLVM components are named by hand at the link.
function(sl_unhook_llvm_dylib)
  foreach(target IN LISTS LLVM_AVAILABLE_LIBS MLIR_EXPORTED_TARGETS CLANG_EXPORTED_TARGETS LLD_EXPORTED_TARGETS)
    if(NOT TARGET ${target})
      continue()
    endif()
    get_target_property(type ${target} TYPE)
    get_target_property(libraries ${target} INTERFACE_LINK_LIBRARIES)
    if(NOT type STREQUAL "STATIC_LIBRARY" OR NOT libraries)
      continue()
    endif()
    set(kept)
    foreach(library IN LISTS libraries)
      string(REGEX REPLACE "^\\\\?\\$<LINK_ONLY:(.*)>$" "\\1" bare "${library}")
      if(bare MATCHES "^(LLVM|MLIR|clang-cpp|Polly|LLVMExtensions)$" OR bare MATCHES "libz3|LibXml2|CURL")
        continue()
      elseif(bare STREQUAL "zstd::libzstd_shared")
        list(APPEND kept "$<IF:$<TARGET_EXISTS:zstd::libzstd_static>,zstd::libzstd_static,zstd::libzstd_shared>")
      elseif(bare STREQUAL "ZLIB::ZLIB")
        list(APPEND kept "${SL_ZLIB}")
      else()
        list(APPEND kept "${library}")
      endif()
    endforeach()
    set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES "${kept}")
  endforeach()
endfunction()
sl_unhook_llvm_dylib()

list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
set(LLVM_LINK_LLVM_DYLIB OFF)
set(MLIR_LINK_MLIR_DYLIB OFF)
include(TableGen)
include(AddLLVM)
include(AddMLIR)

set(SL_MLIR_LIBRARIES
    MLIRIR MLIRSupport MLIRPass MLIRParser MLIRAsmParser MLIRBytecodeReader MLIRBytecodeWriter MLIRTransforms
    MLIRTransformUtils MLIRRewrite MLIRFuncDialect MLIRArithDialect MLIRMathDialect MLIRTensorDialect
    MLIRControlFlowInterfaces MLIRSideEffectInterfaces MLIRInferTypeOpInterface MLIRLoopLikeInterface
    MLIRCastInterfaces MLIRDestinationStyleOpInterface)
set(SL_JIT_LIBRARIES
    LLVMX86CodeGen LLVMX86AsmParser LLVMX86Disassembler LLVMMCDisassembler LLVMX86Desc LLVMX86Info LLVMOrcJIT LLVMOrcDebugging LLVMOrcTargetProcess
    LLVMOrcShared LLVMJITLink LLVMPasses LLVMTarget LLVMTargetParser LLVMMC LLVMCore LLVMSupport)
set(SL_CLANG_LIBRARIES
    clangFrontend clangCodeGen clangDriver clangSerialization clangParse clangSema clangAnalysis clangEdit clangAST
    clangASTMatchers clangLex clangBasic clangSupport clangOptions LLVMCoverage LLVMFrontendDriver LLVMFrontendHLSL
    LLVMFrontendOpenMP LLVMFrontendOffloading LLVMLTO LLVMOption LLVMProfileData LLVMWindowsDriver LLVMHipStdPar LLVMipo
    LLVMCoroutines LLVMObjCARCOpts LLVMIRReader LLVMBitReader LLVMBitWriter LLVMLinker LLVMInstrumentation LLVMTextAPI
    LLVMDebugInfoDWARF)
set(SL_LLD_LIBRARIES lldELF lldCommon LLVMDTLTO LLVMLTO LLVMObjCopy)

# Include directories, definitions and flags for code that includes LLVM, MLIR or clang headers.
add_library(sl_llvm INTERFACE)
target_include_directories(sl_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS} ${CLANG_INCLUDE_DIRS})
separate_arguments(SL_LLVM_DEFINITIONS NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_compile_options(sl_llvm INTERFACE ${SL_LLVM_DEFINITIONS} $<$<NOT:$<BOOL:${LLVM_ENABLE_RTTI}>>:-fno-rtti>)

# Headers of LLVM and MLIR, parsed once for all compiler libraries: they are two fifths of the time of a file that includes them.
# Each file still includes what it names; SL_PRECOMPILE=OFF builds without.
option(SL_PRECOMPILE "Precompile the headers of LLVM and MLIR" ON)
if(SL_PRECOMPILE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(headers
      llvm/ADT/MapVector.h llvm/ADT/SmallString.h llvm/ADT/StringExtras.h llvm/ADT/StringSwitch.h llvm/ADT/TypeSwitch.h
      llvm/Support/FormatVariadic.h llvm/Support/raw_ostream.h mlir/Bytecode/BytecodeOpInterface.h mlir/Dialect/Arith/IR/Arith.h
      mlir/Dialect/Func/IR/FuncOps.h mlir/IR/Builders.h mlir/IR/BuiltinOps.h mlir/IR/DialectImplementation.h
      mlir/IR/OpImplementation.h mlir/IR/PatternMatch.h mlir/IR/SymbolTable.h mlir/Pass/Pass.h)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled.cpp CONTENT "")
  add_library(sl_precompiled OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
  target_link_libraries(sl_precompiled PUBLIC sl_llvm)
  list(TRANSFORM headers PREPEND "<")
  list(TRANSFORM headers APPEND ">")
  target_precompile_headers(sl_precompiled PRIVATE ${headers})
  target_compile_options(sl_precompiled PRIVATE -Xclang -fno-pch-timestamp)
  # What ccache takes in place of the precompiled file, which holds names of this folder: two checkouts share objects.
  string(SHA256 sum "${headers} ${SL_LLVM_VERSION} ${CMAKE_CXX_COMPILER_VERSION}")
  set(SL_PRECOMPILED ${PROJECT_BINARY_DIR}/CMakeFiles/sl_precompiled.dir/cmake_pch.hxx.pch)
  file(CONFIGURE OUTPUT ${SL_PRECOMPILED}.sum CONTENT "${sum}" @ONLY)
endif()
