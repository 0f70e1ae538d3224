# Helpers shared by all folders. One function per kind of thing that a contributor adds.

# sl_add_tablegen(<target> <td file> <output>=<generator flag>...): runs mlir-tblgen; outputs land beside the mirrored path in the
# build tree, so that "dialect/op/op_ops.h.inc" is found from the build root.
function(sl_add_tablegen target source)
  set(LLVM_TARGET_DEFINITIONS ${source})
  foreach(pair IN LISTS ARGN)
    string(REGEX MATCH "^([^=]+)=(.+)$" _ "${pair}")
    set(output ${CMAKE_MATCH_1})
    separate_arguments(flags UNIX_COMMAND "${CMAKE_MATCH_2}")
    mlir_tablegen(${output} ${flags} EXTRA_INCLUDES ${PROJECT_SOURCE_DIR} ${MLIR_INCLUDE_DIRS})
  endforeach()
  add_public_tablegen_target(${target})
endfunction()

# sl_add_compiler_library(<name> SOURCES ... [DEPENDS tablegen targets] [LINK libraries] [WITHOUT_MLIR]): a static library of the
# compiler side.
function(sl_add_compiler_library name)
  cmake_parse_arguments(A "WITHOUT_MLIR" "" "SOURCES;DEPENDS;LINK" ${ARGN})
  add_library(${name} STATIC ${A_SOURCES})
  target_link_libraries(${name} PUBLIC sl_llvm sl_headers ${A_LINK})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_include_directories(${name} SYSTEM PUBLIC ${PROJECT_BINARY_DIR})  # tablegen's output is not ours to warn about
  if(A_DEPENDS)
    add_dependencies(${name} ${A_DEPENDS})
  endif()
  if(TARGET sl_precompiled AND NOT A_WITHOUT_MLIR)
    # Not REUSE_FROM: ccache would see the checkout's path, and two checkouts would share nothing.
    set_property(SOURCE ${A_SOURCES} APPEND PROPERTY OBJECT_DEPENDS ${SL_PRECOMPILED})
    target_compile_options(${name} PRIVATE "SHELL:-include-pch ${SL_PRECOMPILED}")
  endif()
endfunction()

# sl_add_target(<name> SOURCES ... [DEPENDS tablegen targets]): the library sl_target_<name> of a target's folder.
function(sl_add_target name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPENDS" ${ARGN})
  sl_add_compiler_library(sl_target_${name} SOURCES ${A_SOURCES} DEPENDS sl_passes_tablegen ${A_DEPENDS}
                          LINK sl_target sl_kernel_passes)
endfunction()

# sl_add_unittest(<stem> SOURCES ... [LINK ...]): a GoogleTest program, label "unit".
function(sl_add_unittest name)
  cmake_parse_arguments(A "" "" "SOURCES;LINK" ${ARGN})
  if(NOT SL_BUILD_TESTS)
    return()
  endif()
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE ${A_LINK} GTest::gtest_main)
  gtest_discover_tests(${name} PROPERTIES LABELS unit DISCOVERY_TIMEOUT 60)
endfunction()

# sl_use_lld(): links everything with LLVM's linker (GNU ld takes ten times as long on the compiler library). g++ 12 knows only
# the name "lld" and looks for "ld.lld": -B shows it a folder with a link of that name.
macro(sl_use_lld)
  file(STRINGS ${PROJECT_SOURCE_DIR}/cmake/llvm_version.txt SL_LLVM_VERSION LIMIT_COUNT 1)
  string(REGEX MATCH "^[0-9]+" SL_LLVM_MAJOR "${SL_LLVM_VERSION}")
  find_program(SL_LLD NAMES ld.lld-${SL_LLVM_MAJOR} ld.lld HINTS /usr/lib/llvm-${SL_LLVM_MAJOR}/bin)
  if(SL_LLD)
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/linker)
    file(CREATE_LINK ${SL_LLD} ${PROJECT_BINARY_DIR}/linker/ld.lld SYMBOLIC)
    # One export list serves several libraries of the runtime: a name that one of them lacks is no error.
    add_link_options(-fuse-ld=lld -B${PROJECT_BINARY_DIR}/linker -Wl,--undefined-version)
  endif()
endmacro()
