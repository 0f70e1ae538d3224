# SPDX-License-Identifier: Apache-2.0
# With SL_PREBUILT=<a build tree of this project> only the Python module is compiled; everything else of the package is
# installed from there. So a wheel for another Python takes seconds.
if(NOT EXISTS ${SL_PREBUILT}/python/straightline/libstraightline_compiler.so)
  message(FATAL_ERROR "SL_PREBUILT is ${SL_PREBUILT}, where no libstraightline_compiler.so lies: run `make build` first")
endif()
find_package(Python3 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
set(SL_PACKAGE ${PROJECT_BINARY_DIR}/python/straightline)
foreach(name IN ITEMS runtime compiler)
  add_library(straightline_${name} SHARED IMPORTED)
  set_target_properties(straightline_${name} PROPERTIES
    IMPORTED_LOCATION ${SL_PREBUILT}/python/straightline/libstraightline_${name}.so
    INTERFACE_INCLUDE_DIRECTORIES "${SL_PREBUILT}/include;${PROJECT_SOURCE_DIR}")
endforeach()
include(${PROJECT_SOURCE_DIR}/python/bindings.cmake)
if(NOT TARGET straightline_bindings)
  message(FATAL_ERROR "${Python3_EXECUTABLE} has no pybind11: tools/setup/wheel.sh installs it")
endif()
include(${PROJECT_SOURCE_DIR}/python/torch_device.cmake)
install(TARGETS straightline_bindings LIBRARY DESTINATION straightline COMPONENT python)
install(
  CODE "execute_process(
    COMMAND \"${CMAKE_COMMAND}\" --install \"${SL_PREBUILT}\" --component package --strip --prefix \"\${CMAKE_INSTALL_PREFIX}\"
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)"
  COMPONENT package)
