# The compiler's Python module, _compiler: pybind11 over the C ABI. Included by python/CMakeLists.txt.
if(NOT TARGET straightline_compiler)
  return()
endif()
execute_process(
  COMMAND ${Python3_EXECUTABLE} -m pybind11 --cmakedir
  OUTPUT_VARIABLE SL_PYBIND11_DIR
  OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_QUIET
  RESULT_VARIABLE SL_PYBIND11_STATUS)
if(NOT SL_PYBIND11_STATUS EQUAL 0)
  message(WARNING "the compiler's Python module is not built: ${Python3_EXECUTABLE} has no pybind11; run `make setup`")
  return()
endif()
set(pybind11_DIR ${SL_PYBIND11_DIR})
find_package(pybind11 3 CONFIG REQUIRED)

pybind11_add_module(straightline_bindings MODULE NO_EXTRAS ${CMAKE_CURRENT_LIST_DIR}/straightline/_bindings.cpp)
target_link_libraries(straightline_bindings PRIVATE straightline_compiler straightline_runtime)
set_target_properties(
  straightline_bindings PROPERTIES OUTPUT_NAME _compiler LIBRARY_OUTPUT_DIRECTORY ${SL_PACKAGE} BUILD_RPATH "$ORIGIN"
                                   INSTALL_RPATH "$ORIGIN")
target_link_options(straightline_bindings PRIVATE -Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/exports.map)
set_property(TARGET straightline_bindings APPEND PROPERTY LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/exports.map)
