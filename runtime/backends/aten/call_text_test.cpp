// SPDX-License-Identifier: Apache-2.0
#include "call_text.h"

#include <gtest/gtest.h>

#include <cmath>

#include "straightline/abi/straightline.h"

namespace straightline::aten {
namespace {

std::string text(const std::string& arguments, const std::string& results) {
  return "aten::f\nout\n2.13.0\ndispatcher\naten::f.out(..)\n" + arguments + "\n" + results;
}

using Kind = Value::Kind;

TEST(CallText, ReadsEveryKindOfValue) {
  CallText call;
  std::string error;
  ASSERT_TRUE(parseCallText(text("self=%0, b=@1:complex64, n=-12, r=1.5e-3, i=-inf, q=nan, t=true, "
                                 "none, s=\"a \\\"b\\\"\\\\\\n, ]\", "
                                 "l=?[1, $2, [%3]], d=?dtype.float32, layout.strided, device.cpu, "
                                 "format.channels_last, e=[]",
                                 "@0, none, [@1, @2]")
                                .c_str(),
                            &call, &error))
      << error;
  EXPECT_EQ(call.name, "aten::f");
  EXPECT_EQ(call.overload, "out");
  EXPECT_EQ(call.version, "2.13.0");
  EXPECT_EQ(call.door, "dispatcher");
  EXPECT_EQ(call.schema, "aten::f.out(..)");
  const std::vector<Value>& a = call.arguments;
  ASSERT_EQ(a.size(), 15u);
  const Kind kinds[] = {Kind::input, Kind::output,  Kind::integer, Kind::real,   Kind::real,
                        Kind::real,  Kind::boolean, Kind::none,    Kind::text,   Kind::list,
                        Kind::dtype, Kind::layout,  Kind::device,  Kind::format, Kind::list};
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].kind, kinds[i]) << i;
    EXPECT_EQ(a[i].optional, i == 9 || i == 10) << i;
  }
  EXPECT_EQ(a[1].number, 1);
  EXPECT_EQ(a[1].text, "complex64");
  EXPECT_EQ(a[2].number, -12);
  EXPECT_EQ(a[3].real, 1.5e-3);
  EXPECT_EQ(a[4].real, -INFINITY);
  EXPECT_TRUE(std::isnan(a[5].real));
  EXPECT_EQ(a[8].text, "a \"b\"\\\n, ]");
  ASSERT_EQ(a[9].items.size(), 3u);
  EXPECT_EQ(a[9].items[1].kind, Kind::size);
  EXPECT_EQ(a[9].items[2].items[0].number, 3);
  EXPECT_EQ(a[10].text, "float32");
  ASSERT_EQ(call.results.size(), 3u);
  EXPECT_EQ(call.results[1].kind, Kind::none);
  EXPECT_EQ(call.results[2].items.size(), 2u);
}

TEST(CallText, ComplexNumbersAreTwo) {
  CallText call;
  std::string error;
  ASSERT_TRUE(parseCallText(text("self=%0, other=complex[1.5, -inf]", "@0").c_str(), &call, &error))
      << error;
  const Value& number = call.arguments[1];
  EXPECT_EQ(number.kind, Kind::complex);
  ASSERT_EQ(number.items.size(), 2u);
  EXPECT_EQ(number.items[0].real, 1.5);
  EXPECT_EQ(number.items[1].real, -INFINITY);
}

TEST(CallText, SaysWhatItCannotRead) {
  for (const auto& [arguments, words] :
       {std::pair("self=%x", "expected a number at character 7 of 'self=%x'"),
        std::pair("1 2", "expected a comma at character 3 of '1 2'"),
        std::pair("[1, 2", "expected a comma or ] at character 6"),
        std::pair("\"open", "expected a quote"),
        std::pair("complex[1.0]", "expected a value at character 1 of 'complex[1.0]'"),
        std::pair("frob", "expected a value at character 1 of 'frob'")}) {
    CallText call;
    std::string error;
    EXPECT_FALSE(parseCallText(text(arguments, "").c_str(), &call, &error)) << arguments;
    EXPECT_NE(error.find(words), std::string::npos) << error;
  }
  CallText call;
  std::string error;
  EXPECT_FALSE(parseCallText("aten::f\n", &call, &error));
  EXPECT_EQ(error, "the text of the call has 2 lines but must have 7");
}

/// Without torch in the process the backend is there, and says what it lacks.
TEST(Aten, NeedsTorchInTheProcess) {
  const sl_kernel_desc* kernel = nullptr;
  for (int32_t b = 0; b < sl_backend_count(); ++b) {
    if (std::string(sl_backend_at(b)->name) == "aten") {
      kernel = &sl_backend_at(b)->kernels[0];
    }
  }
  ASSERT_NE(kernel, nullptr);
  const std::string words = text("", "");
  sl_problem problem{};
  problem.size = sizeof(problem);
  problem.op = "aten";
  problem.text = words.c_str();
  char reason[256] = "";
  EXPECT_EQ(kernel->accepts(&problem, reason, sizeof(reason)), 0);
  EXPECT_STREQ(reason, "aten needs torch in this process, and libtorch_cpu is not loaded");
  sl_ctx ctx{};
  ctx.size = sizeof(ctx);
  void* handle = nullptr;
  const auto plan =
      reinterpret_cast<int32_t (*)(sl_ctx*, const sl_problem*, const void* const*, void**)>(
          sl_symbol("sl_aten_call_plan"));
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan(&ctx, &problem, nullptr, &handle), SL_OP_FAILED);
  EXPECT_EQ(ctx.status, SL_OP_FAILED);
  EXPECT_STREQ(ctx.text,
               "aten::f: aten needs torch in this process, and libtorch_cpu is not loaded");
  EXPECT_EQ(handle, nullptr);
}

TEST(FailureText, IsCutBetweenCharacters) {
  sl_ctx ctx{};
  ctx.size = sizeof(ctx);
  std::string text(SL_FAILURE_TEXT_BYTES - 2, 'a');
  text += "\xC3\xA9";  // two bytes, of which one would fit
  sl_fail_text(&ctx, SL_OP_FAILED, text.c_str());
  EXPECT_EQ(std::string(ctx.text), std::string(SL_FAILURE_TEXT_BYTES - 2, 'a'));
  sl_fail_text(&ctx, SL_INTERNAL, "later");
  EXPECT_EQ(ctx.status, SL_OP_FAILED);
}

}  // namespace
}  // namespace straightline::aten
