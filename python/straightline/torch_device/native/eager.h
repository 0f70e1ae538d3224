// SPDX-License-Identifier: Apache-2.0
// Ops of torch as prepared programs of one op.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace sl_torch {

/// `builder` answers for what the table does not have, in Python
/// (straightline/torch_device/eager.py):
///   plan(op) -> (kind, text, mutated): 0: a function; 1: it writes arguments `mutated` (their
///     numbers), which get the results of the function `text`;
///     2: refused, `text` says why;
///     3: on the host
///   build(op, arguments, tensors, dynamic) -> (program, weights, inputs, results, number,
///     owner), or a text: why there is none;
///     None: on the host
/// `limit`: programs that are kept.
void setBuilder(PyObject* builder, size_t limit);

/// Registers the kernel for these ops ("aten::add.Tensor"), and as what runs all others.
void registerOps(const std::vector<std::string>& ops);

/// (number of the program, calls)
std::vector<std::tuple<int64_t, int64_t>> programCalls();
/// Op, and how often it ran on the host.
std::vector<std::tuple<std::string, int64_t>> hostCalls();
/// Programs that were built since the process began.
int64_t programsBuilt();
void forgetPrograms();

}  // namespace sl_torch
