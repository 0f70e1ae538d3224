# SPDX-License-Identifier: Apache-2.0
"""Paths and seeds of the tests that compile from Python and run.

With STRAIGHTLINE_TEST_DEVICE=cuda they make their models and inputs on that device: what is no test of the CPU's own then
holds for it too. With STRAIGHTLINE_TEST_SAVED=1 what `policy.check` compiles is saved, and what it calls is loaded from that file. STRAIGHTLINE_TEST_LAUNCH=stream compiles what `policy.check` compares there for launches one by one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

_ROOT = Path(__file__).resolve().parents[2]
for _folder in (_ROOT, _ROOT / "tests" / "run"):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

if os.environ.get("STRAIGHTLINE_TEST_DEVICE"):
    torch.set_default_device(os.environ["STRAIGHTLINE_TEST_DEVICE"])
    torch.backends.cudnn.allow_tf32 = False  # the policy is about float32


#: Tests (or cases: what stands in brackets contains the text) that ask something about the CPU's own kernels, threads, routes or
#: memory, for which torch itself has no kernel on a device, or whose failing assertion would end the process's CUDA context. A file's name alone: all of it.
_OF_THE_CPU = {
    "aten_test.py::test_a_wrong_fake_kernel": "",
    "aten_test.py::test_allow": "",
    "aten_test.py::test_custom_ops": "",  # the custom ops of these have kernels for the CPU
    "aten_test.py::test_exceptions": "",
    "aten_test.py::test_handles_go_with_the_program": "",
    "aten_test.py::test_over_parameters": "",
    "aten_test.py::test_state_through_a_custom_op": "",
    "aten_test.py::test_tail": "histogram",
    "aten_test.py::test_threads": "",
    "aten_test.py::test_three_ways": "",
    "aten_test.py::test_what_becomes_of_it": "",
    "band_pools_test.py": "",
    "calls_test.py::test_a_constant_of_the_host_is_each_calls_own": "",  # takes a tensor of the host for one that is elsewhere
    "compile_mlir_test.py": "",  # its programs are compiled for the CPU
    "contract_test.py::test_lstm_is_a_loop": "",  # one kernel there
    "counts_test.py": "",
    "cuda_architectures_test.py": "",
    "cuda_families_on_host_test.py": "",
    "cuda_libraries_test.py::test_one_line_moves_a_convolution": "",
    "cuda_named_sizes_on_host_test.py": "",
    "cuda_on_host_test.py": "",
    "cuda_order_test.py::test_rows_in_order_stay_in_registers": "",  # of the compiler that is pinned
    "cuda_products_on_host_test.py": "",
    "cuda_rows_test.py": "",  # emulated on the host
    "cuda_test.py::test_a_call_without_a_device_says_what_is_missing": "",
    "cuda_test.py::test_a_route_to_a_kernel_of_the_host_is_refused": "",
    "cuda_test.py::test_on_the_cpu_nothing_is_launched": "",
    "cuda_test.py::test_one_line_moves_an_attention": "",
    "cuda_test.py::test_options_that_do_not_fit": "",
    "cuda_test.py::test_the_cpu_path_knows_nothing_of_it": "",
    "demo_test.py": "",
    "grouped_matmul_test.py::test_a_number_of_terms_that_is_named": "",  # native on a device
    "grouped_matmul_test.py::test_many_groups_for_a_device": "",  # emulated on the host
    "grouped_matmul_test.py::test_rows_for_a_device": "",  # emulated on the host
    "grouped_matmul_test.py::test_terms_for_a_device": "",  # emulated on the host
    "grouped_matmul_test.py::test_terms_of_ends_that_are_not_in_order": "",  # an assertion of eager's kernel
    "half_numbers_test.py::test_norms_of_halves_with_parameters_of_float32": "_norm",  # refused by eager on a device
    "half_numbers_test.py::test_quotients_for_a_device": "",  # emulated on the host
    "found_by_audit_test.py::test_averages_of_integers": "",  # refused by eager on a device
    "found_by_audit_test.py::test_group_norm_of_a_named_number_of_channels": "",
    "found_by_audit_test.py::test_named_sizes_without_a_maximum": "group_norm",  # torch's form there compares sizes
    "named_images_test.py::test_every_number_of_tiles": "",  # of a kernel that is for the CPU
    "named_images_test.py::test_many_channels_have_a_kernel_for_few_pixels": "",  # forms of the CPU
    "log_test.py::test_codegen_and_cache": "",  # nothing is packed there
    "explorer_test.py::test_machine_code": "",  # of the host
    "explorer_test.py::test_machine_code_that_does_not_fit": "",  # the host's code of a device's program is shorter
    "external_kernel_test.py": "",  # its library runs on the host
    "folded_norms_test.py::test_the_weight_is_packed_from_where_it_lies": "",  # nothing is packed there
    "depthwise_batch_test.py": "",  # looks at the CPU's text
    "diagonals_test.py::test_an_index_beyond_the_dim": "",  # an assertion on a device
    "diagonals_test.py::test_for_a_device": "",  # emulated on the host
    "emitted_python_test.py::test_a_kernel_wants_buffers_of_its_call": "",
    "emitted_python_test.py::test_bfloat16_comes_as_float32": "",
    "emitted_python_test.py::test_code_may_be_replaced": "",
    "emitted_python_test.py::test_exceptions_show_the_line": "",  # an assertion on a device
    "emitted_python_test.py::test_intermediates_are_arrays": "",
    "emitted_python_test.py::test_kernels_of_all_live_functions": "",
    "emitted_python_test.py::test_kernels_say_what_they_take": "",
    "emitted_python_test.py::test_nothing_works_after_the_call": "",
    "emitted_python_test.py::test_pdb_stops_in_it": "",
    "emitted_python_test.py::test_source_is_known": "",
    "empty_test.py::test_attention_for_a_device": "",  # on the host
    "empty_test.py::test_programs_for_a_device": "",
    "indexing_test.py::test_an_index_outside_is_an_error": "",  # an assertion on a device
    "indexing_test.py::test_integers_on_a_device": "",  # emulated on the host
    "indexing_test.py::test_on_a_device": "",  # emulated on the host
    "indexing_test.py::test_the_last_of_equal_places_stays": "",  # on a device some one of them
    "int8_test.py": "",
    "layouts_test.py::test_nothing_is_reordered_around_a_depthwise_convolution": "",
    "layouts_test.py::test_a_product_adds_the_residual_behind_a_permute": "",  # emulated on the host
    "layouts_test.py::test_an_image_made_of_rows_of_channels_stays_as_it_lies": "",  # patches are copied first there
    "linalg_test.py::test_eigenvalues_and_singular_values": "",  # compiled for the CPU, and emulated on the host
    "lifetime_test.py::test_code_is_deterministic": "",  # its other processes compile for the CPU
    "lifetime_test.py::test_the_caller_may_fork": "",  # refused there: tests/device/launch_test.py
    "log_test.py::test_progress_where_the_environment_says_so": "",  # waits for clang
    "log_test.py::test_route": "",
    "log_test.py::test_what_is_worth_a_team_is_compiled_once": "",
    "models_test.py::test_model": "-2]",  # two threads
    "models_test.py::test_resnet_has_nothing_between_its_layers": "",
    "onednn_test.py": "",
    "ops_test.py::test_rolls_for_a_device": "",  # emulated on the host
    "order_test.py::test_what_is_no_distribution": "",  # a failed assertion ends the context
    "parameters_test.py::test_a_replaced_set_is_given_back": "",  # of numpy arrays, which a device copies
    "parameters_test.py::test_numpy_models_load_arrays": "",
    "pools_test.py::test_for_a_device": "",  # emulated on the host
    "pools_test.py::test_unpool_beyond_the_result": "",  # an assertion on a device
    "products_test.py::test_a_linear_whose_weight_may_change": "",
    "products_test.py::test_bfloat16_that_others_read": "",
    "products_test.py::test_with_a_column_and_with_a_row": "",
    "profile_test.py::test_a_slot_that_is_chosen_is_profiled": "",  # of kernels of the CPU
    "python_ops_test.py::test_lists_of_tensors_are_called_by_c": "",
    "python_ops_test.py::test_plain_calls_are_made_by_c": "",
    "python_ops_test.py::test_results_that_lie_otherwise_are_copied_by_torch": "",
    "python_ops_test.py::test_threads_and_programs_that_go": "",
    "python_ops_test.py::test_what_is_written_is_seen": "",
    "quantized_test.py": "",
    "real_models_test.py::test_an_index_outside_the_cache": "",  # an assertion on a device
    "real_models_test.py::test_float64": "mobilenet",  # torch's hardswish multiplies by 1/6 in float32 there (3e-8 off)
    "pools_test.py::test_places": "dtype3",  # torch has no integer pools with places on a device
    "recurrent_test.py::test_any_number_of_steps_and_rows": "-2]",  # two threads
    "reductions_over_outer_dims_test.py::test_one_kernel_of_a_device": "",  # emulated on the host
    "resize_test.py::test_cubic_for_a_device_where_all_sizes_stay": "",  # emulated on the host
    "resize_test.py::test_for_a_device": "",  # emulated on the host
    "resize_test.py::test_interpolation_of_bytes": "",  # left to torch on a device
    "resize_test.py::test_linear_for_a_device_where_a_size_stays": "",  # emulated on the host
    "resize_test.py::test_nearest_for_a_device": "",  # emulated on the host
    "resize_test.py::test_what_stays_torchs": "",  # torch has no such kernels of uint8 on a device
    "resize_test.py::test_weights_of_bytes_next_to_one": "",  # left to torch on a device
    "routes_aten_test.py::test_many_ops": "",
    "routes_rules_test.py::test_the_host_as_target": "",
    "routes_test.py::test_a_file": "",
    "routes_test.py::test_a_route_of_an_op_that_is_not_there": "",
    "routes_test.py::test_an_argument": "",
    "routes_test.py::test_attention": "",
    "routes_test.py::test_each_convolution": "",
    "routes_test.py::test_the_environment": "",
    "routes_test.py::test_the_order_of_precedence": "",
    "routes_test.py::test_weights_are_packed_for_the_routed_kernel": "",
    **{
        f"routes_rules_test.py::{name}": ""  # of the CPU's kernels
        for name in (
            "test_a_fused_op_shows_the_rule_of_each_place",
            "test_a_module_pattern_names_the_modules_and_all_within",
            "test_an_overload",
            "test_source_lines",
            "test_sources_come_before_ranks",
            "test_the_first_target_that_accepts",
            "test_the_later_rule",
            "test_the_report_and_the_rules_in_force",
            "test_which_rule_decides",
        )
    },
    "sampling_test.py::test_grid_sample_for_a_device": "",  # emulated on the host
    "sampling_test.py::test_places_that_are_no_numbers": "",  # ATen's kernels of a device have other results, tested below
    "sampling_test.py::test_places_that_are_no_numbers_for_a_device": "",  # emulated on the host
    "recurrent_test.py::test_states_that_fade_are_zero_before_they_are_subnormal": "",  # a device has no slow numbers
    "sampling_test.py::test_ties": "",  # eager's rounding on a CPU
    "scatter_test.py::test_an_index_outside_is_an_error": "",  # an assertion on a device
    "scatter_test.py::test_masked_scatter": "",  # an assertion on a device
    "scatter_test.py::test_on_a_device": "",  # emulated on the host
    "scatter_test.py::test_the_last_of_equal_places_stays": "",  # on a device some one of them
    "scatter_test.py::test_what_is_left_to_torch": "",  # torch says why to standard error there
    "several_examples_test.py::test_dtypes_ranks_structures_and_constants": "",
    "shared_kernels_test.py": "",
    "slots_test.py::test_programs_from_mlir_and_python_text": "",  # programs from mlir are for the CPU
    "stored_weights_test.py::test_no_widened_copy": "",
    "threads_test.py": "",
    "trees_on_host_test.py": "",  # emulated on the host
    "specialize_test.py::test_all_ways_of_calling": "",
    "specialize_test.py::test_in_a_forked_child": "",  # CUDA does not outlive a fork
    "specialize_test.py::test_other_parameters": "options2",  # emitted Python
    "specialize_test.py::test_parameters_that_were_written_since": "",  # packed weights
    "specialize_test.py::test_parameters_whose_changes_are_unseen": "",
    "specialize_test.py::test_right_at_each_size[a cache]": "",  # torch 2.11 cannot export these two there
    "specialize_test.py::test_right_at_each_size[signals]": "",
    "specialize_test.py::test_what_fails_in_the_background_warns": "",
    "specialize_test.py::test_where_it_means_nothing": "",
    "three_ways_test.py::test_failures_are_alike": "",  # an assertion on a device
    "three_ways_test.py::test_same_bits": "onednn",
    "tune_test.py": "",  # measures kernels of the CPU
    "scans_test.py::test_special_values": "",  # of infinities eager's logcumsumexp is NaN there
    "taken_apart_test.py::test_addmv_of_integers_is_for_torch": "",
    "taken_apart_test.py::test_attention_with_the_logarithm_of_its_sums": "",
    "taken_apart_test.py::test_elementwise": "angle-",  # of halves
    "taken_apart_test.py::test_round_to_decimals": "",  # eager rounds halves in steps of halves there
    "windows_test.py::test_convolutions_that_stay_torchs": "",
    "windows_test.py::test_for_a_device": "",  # emulated on the host
    "windows_test.py::test_long_windows": "",  # they are native on a device
    "winograd_test.py": "",
    "written_attention_test.py::test_a_rule_for_the_op_that_the_products_become": "",  # compiled only
    "written_attention_test.py::test_keys_that_the_run_copies_are_read_behind_the_copy": "",  # emulated on the host
    "written_attention_test.py::test_masks_that_are_added_up_in_float32": "",  # compiled only
    "written_attention_test.py::test_no_keys_of_a_named_number": "",  # emulated on the host
    "written_attention_test.py::test_random_attention": "",  # emulated on the host
    "written_attention_test.py::test_shifted_windows": "",  # emulated on the host
    "written_attention_test.py::test_the_op_on_a_cpu": "",
    "written_attention_test.py::test_where_it_stays_as_written": "",  # compiles for a CPU, too
    "written_attention_test.py::test_windows_of_several_images": "",  # emulated on the host
    "writes_test.py::test_a_write_to_an_expanded_tensor": "under a mask",  # several threads of eager's write one element there
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves out what is about the CPU where a device is asked for."""
    if not os.environ.get("STRAIGHTLINE_TEST_DEVICE"):
        return
    for item in items:
        test = f"{item.path.name}::{getattr(item, 'originalname', item.name)}"
        is_named = item.path.name in _OF_THE_CPU or f"{item.path.name}::{item.name}" in _OF_THE_CPU
        if is_named or (test in _OF_THE_CPU and _OF_THE_CPU[test] in item.name):
            item.add_marker(pytest.mark.skip(reason="about the CPU"))


@pytest.fixture(autouse=True)
def seed() -> Iterator[int]:
    """Seeds torch with a fresh number, shown when a test fails."""
    number = torch.seed() % 2**32
    torch.manual_seed(number)
    print(f"seed {number}")
    yield number
