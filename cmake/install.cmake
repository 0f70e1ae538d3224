# SPDX-License-Identifier: Apache-2.0
# What the package holds beside its Python files: component "package" is the same for every Python, component "python" is the
# module of one. Everything is found from where it lies ($ORIGIN), so the folder may be anywhere: a wheel, or a prefix of C++ users.
set(SL_PACKAGE_INSTALL straightline)

install(TARGETS straightline_runtime LIBRARY DESTINATION ${SL_PACKAGE_INSTALL} COMPONENT package)
set_target_properties(straightline_runtime PROPERTIES INSTALL_RPATH "$ORIGIN")
foreach(target IN ITEMS straightline_compiler straightline_call straightline_backend_onednn
        straightline_backend_aten)
  if(TARGET ${target})
    install(TARGETS ${target} LIBRARY DESTINATION ${SL_PACKAGE_INSTALL} COMPONENT package)
  endif()
endforeach()
if(TARGET straightline_bindings)
  install(TARGETS straightline_bindings LIBRARY DESTINATION ${SL_PACKAGE_INSTALL} COMPONENT python)
endif()

# For executables that hold all of it.
install(FILES ${PROJECT_BINARY_DIR}/runtime/libstraightline_runtime.a DESTINATION ${SL_PACKAGE_INSTALL} COMPONENT package OPTIONAL)
# Emitted text as source includes these.
file(GLOB SL_KERNEL_HEADERS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/codegen/kernels/*.h)
list(FILTER SL_KERNEL_HEADERS EXCLUDE REGEX "(_testing|_for_tests)\\.h$")
install(FILES ${SL_KERNEL_HEADERS} DESTINATION ${SL_PACKAGE_INSTALL}/include/straightline/kernels COMPONENT package)

file(GLOB SL_ABI_HEADERS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/abi/*.h)
install(FILES ${SL_ABI_HEADERS} DESTINATION ${SL_PACKAGE_INSTALL}/include/straightline/abi COMPONENT package)
file(GLOB SL_CPP_HEADERS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/straightline/*.hpp)
install(FILES ${SL_CPP_HEADERS} ${PROJECT_SOURCE_DIR}/tools/compiler_abi.h DESTINATION ${SL_PACKAGE_INSTALL}/include/straightline COMPONENT package)

# Saved models in C and C++, and how CMake and pkg-config find the package.
file(GLOB SL_MODEL_HEADERS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/*.h ${PROJECT_SOURCE_DIR}/include/*.hpp)
install(FILES ${SL_MODEL_HEADERS} DESTINATION ${SL_PACKAGE_INSTALL}/include COMPONENT package)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/straightline-config-version.cmake COMPATIBILITY SameMinorVersion)
configure_file(${PROJECT_SOURCE_DIR}/cmake/package/straightline-runtime.pc.in ${PROJECT_BINARY_DIR}/package/straightline-runtime.pc @ONLY)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/package/straightline-config.cmake ${PROJECT_BINARY_DIR}/package/straightline-config-version.cmake
        DESTINATION ${SL_PACKAGE_INSTALL}/cmake COMPONENT package)
install(FILES ${PROJECT_BINARY_DIR}/package/straightline-runtime.pc DESTINATION ${SL_PACKAGE_INSTALL}/pkgconfig COMPONENT package)

# What is linked statically comes with its terms.
foreach(package IN ITEMS llvm-${SL_LLVM_MAJOR}-dev libmlir-${SL_LLVM_MAJOR}-dev libclang-${SL_LLVM_MAJOR}-dev libzstd-dev zlib1g-dev)
  if(EXISTS /usr/share/doc/${package}/copyright)
    install(FILES /usr/share/doc/${package}/copyright DESTINATION ${SL_PACKAGE_INSTALL}/licenses RENAME ${package}.txt COMPONENT package)
  endif()
endforeach()
