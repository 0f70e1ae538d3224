# SPDX-License-Identifier: Apache-2.0
# Tests of the GEMM-like kernel families, each built for AVX2 and for the machine at hand. Include from a CMakeLists.txt
# that has found GTest and Threads; SL_KERNEL_INCLUDE_DIR is a folder in which straightline/abi and straightline/kernels
# resolve (ARCHITECTURE.md).
foreach(family gemm convolution winograd attention)
  foreach(arch x86-64-v3 native)
    set(target kernels_${family}_${arch}_test)
    add_executable(${target} ${CMAKE_CURRENT_LIST_DIR}/${family}_test.cpp)
    target_compile_features(${target} PRIVATE cxx_std_20)
    target_compile_options(${target} PRIVATE -O2 -march=${arch} -Wall -Wextra -Wno-psabi)
    target_include_directories(${target} PRIVATE ${SL_KERNEL_INCLUDE_DIR})
    target_link_libraries(${target} PRIVATE GTest::gtest GTest::gtest_main Threads::Threads)
    add_test(NAME ${target} COMMAND ${target})
  endforeach()
endforeach()

# The registry against the templates it describes. Needs straightline_native (runtime/backends/native).
add_executable(kernels_tuning_test ${CMAKE_CURRENT_LIST_DIR}/tuning_test.cpp)
target_compile_options(kernels_tuning_test PRIVATE -Wall -Wextra -Wno-psabi)
target_link_libraries(kernels_tuning_test PRIVATE straightline_native GTest::gtest GTest::gtest_main
                                                  Threads::Threads)
add_test(NAME kernels_tuning_test COMMAND kernels_tuning_test)
