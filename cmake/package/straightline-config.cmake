# SPDX-License-Identifier: Apache-2.0
# find_package(straightline) with CMAKE_PREFIX_PATH or straightline_DIR at the package: straightline::runtime opens saved models,
# straightline::runtime_static does so within an executable, straightline::compiler (where it is
# installed) compiles, straightline::plugin is the headers of plug-ins, which link nothing of ours.
get_filename_component(_straightline_root "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
foreach(_straightline_name IN ITEMS runtime compiler)
  set(_straightline_library "${_straightline_root}/libstraightline_${_straightline_name}.so")
  if(EXISTS "${_straightline_library}" AND NOT TARGET straightline::${_straightline_name})
    add_library(straightline::${_straightline_name} SHARED IMPORTED)
    set_target_properties(straightline::${_straightline_name} PROPERTIES
      IMPORTED_LOCATION "${_straightline_library}"
      IMPORTED_SONAME "libstraightline_${_straightline_name}.so"
      INTERFACE_INCLUDE_DIRECTORIES "${_straightline_root}/include")
  endif()
endforeach()
if(NOT TARGET straightline::plugin)
  add_library(straightline::plugin INTERFACE IMPORTED)
  set_target_properties(straightline::plugin PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_straightline_root}/include")
endif()
if(TARGET straightline::compiler)
  set_property(TARGET straightline::compiler PROPERTY INTERFACE_LINK_LIBRARIES straightline::runtime)
endif()
# For executables without a shared library of ours; the C++ library comes along.
if(EXISTS "${_straightline_root}/libstraightline_runtime.a" AND NOT TARGET straightline::runtime_static)
  add_library(straightline::runtime_static STATIC IMPORTED)
  set_target_properties(straightline::runtime_static PROPERTIES
    IMPORTED_LOCATION "${_straightline_root}/libstraightline_runtime.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_straightline_root}/include"
    INTERFACE_LINK_LIBRARIES "stdc++;m;pthread;dl")
endif()
if(NOT TARGET straightline::runtime)
  set(straightline_FOUND FALSE)
  set(straightline_NOT_FOUND_MESSAGE "no libstraightline_runtime.so in ${_straightline_root}")
endif()
unset(_straightline_root)
