# SPDX-License-Identifier: Apache-2.0
# Tests of the GEMM-like families (included by CMakeLists.txt), each for SL_KERNEL_TEST_MARCH and for AVX2: the two differ
# in vector width, number of registers and default tiles. The second is there for its tiles: -O1, which compiles in half the time.
set(march_list ${SL_KERNEL_TEST_MARCH} x86-64-v3)
list(REMOVE_DUPLICATES march_list)
foreach(family gemm gemm_int8 grouped_matmul matvec convolution convolution_int8 winograd pack attention)
  foreach(march ${march_list})
    set(target kernels_${family}_${march}_test)
    add_executable(${target} ${family}_test.cpp)
    target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/include")
    target_compile_features(${target} PRIVATE cxx_std_20)
    if(SL_KERNEL_TEST_LEVEL)
      set(level ${SL_KERNEL_TEST_LEVEL})
    elseif(march STREQUAL SL_KERNEL_TEST_MARCH)
      set(level -O2)
    else()
      set(level -O1)
    endif()
    target_compile_options(${target} PRIVATE ${level} -march=${march} -Wall -Wextra -Wno-psabi)
    target_link_libraries(${target} PRIVATE GTest::gtest_main Threads::Threads)
    gtest_discover_tests(${target} TEST_PREFIX "${march}/")
  endforeach()
endforeach()

# The native registry (plain C++, no kernel code) against the templates it describes.
file(GLOB native_sources CONFIGURE_DEPENDS
  "${CMAKE_CURRENT_SOURCE_DIR}/../../runtime/backends/native/*.cpp")
include(${CMAKE_CURRENT_SOURCE_DIR}/../../cmake/native_kernels.cmake)
sl_native_kernels(${CMAKE_CURRENT_BINARY_DIR}/generated ${native_sources})
add_executable(kernels_tuning_test tuning_test.cpp ${native_sources})
target_include_directories(kernels_tuning_test PRIVATE
  "${CMAKE_CURRENT_BINARY_DIR}/include" "${CMAKE_CURRENT_BINARY_DIR}/generated"
  "${CMAKE_CURRENT_SOURCE_DIR}/../../runtime")
target_compile_features(kernels_tuning_test PRIVATE cxx_std_20)
target_compile_options(kernels_tuning_test PRIVATE -Wall -Wextra -Wno-psabi)
target_link_libraries(kernels_tuning_test PRIVATE GTest::gtest_main Threads::Threads)
gtest_discover_tests(kernels_tuning_test)
