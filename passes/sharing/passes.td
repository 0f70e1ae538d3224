// SPDX-License-Identifier: Apache-2.0
// Passes of programs that share data.
#ifndef STRAIGHTLINE_PASSES_SHARING_PASSES_TD
#define STRAIGHTLINE_PASSES_SHARING_PASSES_TD

include "passes/pass_base.td"

def SharePrepared : KernelPass<"share-prepared"> {
  let summary = "take prepared buffers that another program has made";
  let description = [{
    For programs over one set of prepared data (slots). `before` lists the buffers of the programs before this one: the digest of what makes it, its
    space, offset and bytes. A buffer that is made in the same way, by launches and copies from parameters and literals alone, gets that place, and what makes it is erased
    from prepare; every other one gets a place behind all of `before`. Each buffer of which this can be told keeps the digest (`kernel.made_by`).
    Refuses: buffers that libraries, loops or kernels with a workspace make: each program has its own.
  }];
  let options = [ListOption<"before", "before", "std::string", "'DIGEST SPACE OFFSET BYTES' of each buffer that is there">];
}

#endif  // STRAIGHTLINE_PASSES_SHARING_PASSES_TD
