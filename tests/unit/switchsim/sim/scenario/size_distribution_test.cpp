// Sizes of messages: files that are refused, and draws that have the distribution of the file.
#include "switchsim/sim/scenario/size_distribution.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace mprdma::switchsim {
namespace {

SizeDistribution load(const std::string& name) {
  SizeDistribution out;
  EXPECT_EQ(SizeDistribution::load(name, &out).text, "");
  return out;
}

std::vector<uint64_t> draws_of(const SizeDistribution& sizes, size_t count) {
  Prng prng(3);
  std::vector<uint64_t> out;
  for (size_t i = 0; i < count; ++i) out.push_back(sizes.draw(prng));
  std::sort(out.begin(), out.end());
  return out;
}

// Kolmogorov and Smirnov's distance at the rows and half-way between them: at sizes with a
// probability of their own the function jumps, and there the rows are what counts.
double distance(const SizeDistribution& sizes, const std::vector<uint64_t>& sorted) {
  double most = 0;
  const auto look = [&](double bytes) {
    const auto end = std::upper_bound(sorted.begin(), sorted.end(), static_cast<uint64_t>(bytes));
    const double share =
        static_cast<double>(end - sorted.begin()) / static_cast<double>(sorted.size());
    most = std::max(most, std::abs(share - sizes.share_up_to(bytes)));
  };
  for (size_t i = 0; i < sizes.rows().size(); ++i) {
    const auto bytes = static_cast<double>(sizes.rows()[i].bytes);
    if (bytes >= 1) look(bytes);
    if (i > 0) look(std::floor((bytes + static_cast<double>(sizes.rows()[i - 1].bytes)) / 2));
  }
  return most;
}

// Distance that one draw in a thousand of so many exceeds.
double critical(size_t count) {
  return 1.95 / std::sqrt(static_cast<double>(count));
}

TEST(SizeDistribution, BuiltInFilesHaveTheMeansOfTheirReadme) {
  const std::map<std::string, double> means = {
      {"websearch_dctcp", 1'711'250},
      {"websearch_powertcp", 1'711'223},
      {"fbhadoop_hpcc", 120'421},
      {"fbhadoop_conweave", 121'849},
      {"alistorage2019", 40'870},
      {"googlerpc2008", 2'968},
      {"solar2022", 39'424},
      {"datamining_vl2", 12'658'199},
      {"datamining_pfabric", 7'470'236},
      {"imc10_phost", 195'357},
      {"irn_heavytail", 194'862},
  };
  EXPECT_EQ(workload_files().size(), means.size());
  for (const WorkloadFile& file : workload_files()) {
    ASSERT_TRUE(means.contains(std::string(file.name))) << file.name;
    EXPECT_NEAR(load(std::string(file.name)).mean(), means.at(std::string(file.name)), 1)
        << file.name;
  }
}

TEST(SizeDistribution, DrawsHaveTheDistributionOfTheFile) {
  constexpr size_t kDraws = 40'000;
  for (const WorkloadFile& file : workload_files()) {
    const SizeDistribution sizes = load(std::string(file.name));
    const std::vector<uint64_t> sorted = draws_of(sizes, kDraws);
    EXPECT_LT(distance(sizes, sorted), critical(kDraws)) << file.name;
    EXPECT_GE(sorted.front(), 1U);
    EXPECT_LE(sorted.back(), sizes.rows().back().bytes);
  }
}

TEST(SizeDistribution, DrawsOfAnotherFileAreTold) {
  constexpr size_t kDraws = 40'000;
  EXPECT_GT(distance(load("websearch_dctcp"), draws_of(load("fbhadoop_hpcc"), kDraws)), 0.3);
  // Without lines between the rows each draw is the row above.
  const SizeDistribution sizes = load("websearch_dctcp");
  std::vector<uint64_t> steps = draws_of(sizes, kDraws);
  for (uint64_t& bytes : steps) {
    bytes = std::find_if(sizes.rows().begin(), sizes.rows().end(), [&](const auto& row) {
              return row.bytes >= bytes;
            })->bytes;
  }
  EXPECT_GT(distance(sizes, steps), 5 * critical(kDraws));
}

TEST(SizeDistribution, TheMeanOfDrawsIsTheMeanOfTheFile) {
  const SizeDistribution sizes = load("websearch_dctcp");
  constexpr size_t kDraws = 200'000;
  double sum = 0;
  for (const uint64_t bytes : draws_of(sizes, kDraws)) sum += static_cast<double>(bytes);
  // The deviation of one draw is 4.0 MB: three of that of the mean.
  EXPECT_NEAR(sum / kDraws, sizes.mean(), 27'000);
}

TEST(SizeDistribution, AStepIsOneSize) {
  SizeDistribution sizes;
  ASSERT_EQ(SizeDistribution::parse("# two sizes\n\n100 0.25\r\n100 0.5\n 200\t0.5 \n200 1\n", "x",
                                    &sizes)
                .text,
            "");
  EXPECT_DOUBLE_EQ(sizes.mean(), 150);
  Prng prng(1);
  uint32_t small = 0;
  for (int i = 0; i < 10'000; ++i) {
    const uint64_t bytes = sizes.draw(prng);
    ASSERT_TRUE(bytes == 100 || bytes == 200) << bytes;
    small += bytes == 100 ? 1 : 0;
  }
  EXPECT_NEAR(small, 5000, 200);
  EXPECT_DOUBLE_EQ(sizes.share_up_to(99), 0);
  EXPECT_DOUBLE_EQ(sizes.share_up_to(150), 0.5);
}

TEST(SizeDistribution, AMistakeIsNamedWithFileAndLine) {
  const auto error_of = [](const char* text) {
    SizeDistribution sizes;
    return SizeDistribution::parse(text, "w.cdf", &sizes).text;
  };
  EXPECT_EQ(error_of("0 0\n10 x\n"),
            "w.cdf:2: expected a whole number of bytes and a cumulative probability");
  EXPECT_EQ(error_of("-1 0\n"),
            "w.cdf:1: expected a whole number of bytes and a cumulative probability");
  EXPECT_EQ(error_of("1 0 7\n"),
            "w.cdf:1: expected a whole number of bytes and a cumulative probability");
  EXPECT_EQ(error_of("10\n"),
            "w.cdf:1: expected a whole number of bytes and a cumulative probability");
  EXPECT_EQ(error_of("# c\n10 50\n"), "w.cdf:2: probability 50: expected 0..1");
  EXPECT_EQ(error_of("10 nan\n"), "w.cdf:1: probability nan: expected 0..1");
  EXPECT_EQ(error_of("10 0.5\n9 1\n"), "w.cdf:2: expected ascending bytes");
  EXPECT_EQ(error_of("10 0.5\n20 0.4\n"), "w.cdf:2: expected ascending probabilities");
  EXPECT_EQ(error_of("10 0.5\n2000000000 1\n"),
            "w.cdf:2: 2000000000 bytes: expected at most 1073741824");
  EXPECT_EQ(error_of("10 0.5\n20 0.9\n"), "w.cdf:2: expected a last row with probability 1");
  EXPECT_EQ(error_of(""), "w.cdf:0: expected a last row with probability 1");
  SizeDistribution sizes;
  EXPECT_EQ(SizeDistribution::load("no-such", &sizes)
                .text.find("no-such: cannot be read: No such file or directory, and none of "),
            0U);
}

}  // namespace
}  // namespace mprdma::switchsim
