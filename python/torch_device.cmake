# SPDX-License-Identifier: Apache-2.0
# The C++ part of torch's device (straightline/torch_device/native) for the torch of this build, so that nobody who has that torch
# compiles it. SL_TORCH names torch's folder; by default it is that of the interpreter. Without torch there is none: the package builds
# it where it is first imported (torch_device/_build.py), as it does for another torch. Included by python/CMakeLists.txt and prebuilt.cmake.
install(FILES ${CMAKE_CURRENT_LIST_DIR}/straightline_torch_autoload.py DESTINATION . COMPONENT python)

set(SL_TORCH "" CACHE PATH "folder of the torch for which torch's device is built; empty: that of the interpreter, if it has one")
set(SL_TORCH_FOLDER ${SL_TORCH})
if(NOT SL_TORCH_FOLDER)
  execute_process(
    COMMAND ${Python3_EXECUTABLE} -c "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '', end='')"
    OUTPUT_VARIABLE SL_TORCH_FOLDER ERROR_QUIET)
endif()
if(NOT EXISTS "${SL_TORCH_FOLDER}/lib/libtorch_python.so")
  message(STATUS "no torch for ${Python3_EXECUTABLE}: torch's device is not built in, but where it is first imported")
  return()
endif()

set(SL_TORCH_DEVICE ${CMAKE_CURRENT_LIST_DIR}/straightline/torch_device)
file(GLOB SL_TORCH_DEVICE_SOURCES CONFIGURE_DEPENDS ${SL_TORCH_DEVICE}/native/*.cpp)
file(GLOB SL_TORCH_DEVICE_HEADERS CONFIGURE_DEPENDS ${SL_TORCH_DEVICE}/native/*.h)
add_library(straightline_torch_device MODULE ${SL_TORCH_DEVICE_SOURCES})
# The flags are those of _build.py.
target_compile_features(straightline_torch_device PRIVATE cxx_std_20)
target_compile_definitions(straightline_torch_device PRIVATE AT_PER_OPERATOR_HEADERS _GLIBCXX_USE_CXX11_ABI=1)
target_compile_options(straightline_torch_device PRIVATE -O2 -w -fvisibility=hidden)
set_source_files_properties(${SL_TORCH_DEVICE}/native/autocast.cpp ${SL_TORCH_DEVICE}/native/module.cpp PROPERTIES COMPILE_OPTIONS -O1)
target_include_directories(
  straightline_torch_device SYSTEM PRIVATE ${SL_TORCH_FOLDER}/include ${SL_TORCH_FOLDER}/include/torch/csrc/api/include ${Python3_INCLUDE_DIRS})
# Torch is loaded before; its libraries are found by their names then.
target_link_libraries(
  straightline_torch_device PRIVATE straightline_runtime ${SL_TORCH_FOLDER}/lib/libtorch_python.so ${SL_TORCH_FOLDER}/lib/libtorch_cpu.so
                                    ${SL_TORCH_FOLDER}/lib/libc10.so)
set_target_properties(
  straightline_torch_device
  PROPERTIES PREFIX ""
             OUTPUT_NAME _straightline_torch_device
             LIBRARY_OUTPUT_DIRECTORY ${SL_PACKAGE}/torch_device
             BUILD_RPATH "$ORIGIN/.."
             INSTALL_RPATH "$ORIGIN/..")
# Beside it stands which torch, which Python and which sources it is for.
add_custom_command(
  TARGET straightline_torch_device
  POST_BUILD
  COMMAND ${Python3_EXECUTABLE} ${SL_TORCH_DEVICE}/_prebuilt.py ${SL_TORCH_FOLDER} ${CMAKE_CURRENT_LIST_DIR}/../runtime/abi
          ${SL_PACKAGE}/torch_device/_straightline_torch_device.json)
file(GLOB SL_TORCH_DEVICE_ABI CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/../runtime/abi/*.h)
set_property(
  TARGET straightline_torch_device APPEND PROPERTY LINK_DEPENDS ${SL_TORCH_DEVICE}/_prebuilt.py ${SL_TORCH_DEVICE_HEADERS} ${SL_TORCH_DEVICE_ABI})
install(TARGETS straightline_torch_device LIBRARY DESTINATION straightline/torch_device COMPONENT python)
install(FILES ${SL_PACKAGE}/torch_device/_straightline_torch_device.json DESTINATION straightline/torch_device COMPONENT python)
