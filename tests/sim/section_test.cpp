// The section of a figure on the page of results: notes, targets of ours, deviations, rows.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "evaluation/figure.hpp"
#include "evaluation/report.hpp"

namespace mprdma::figures {
namespace {

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Section, PrintsANoteOnceAndNamesItInEveryRowThatHasIt) {
  FigureResult result;
  result.report("a", "first", ">= 1", 2, 0, "", "to compare");
  result.report("b", "second", ">= 1", 2, 0, "", "less than one BDP: to compare");
  result.report("c", "third", "", 2, 0, "", "to compare");
  result.claim("d", "fourth", ">= 1", 2, 0, "");
  const std::string text = markdown_section({}, {}, result, "pictures");
  EXPECT_NE(text.find("| first | >= 1 | 2  | met (reported), note 1 |"), std::string::npos) << text;
  EXPECT_NE(text.find("| second | >= 1 | 2  | met (reported), note 2 |"), std::string::npos)
      << text;
  EXPECT_NE(text.find("| third |  | 2  | note 1 |"), std::string::npos) << text;
  EXPECT_NE(text.find("| fourth | >= 1 | 2  | met |"), std::string::npos) << text;
  EXPECT_EQ(count_of(text, "- Note 1: to compare\n"), 1U) << text;
  EXPECT_EQ(count_of(text, "- Note 2: less than one BDP: to compare\n"), 1U) << text;
  EXPECT_EQ(count_of(text, "to compare"), 2U) << text;
}

TEST(Section, SaysWhyAClaimIsMissedOnlyWhereItIs) {
  const std::string why = "missed: the queue is in the way";
  FigureResult result;
  result.report("a", "first", ">= 1", 2, 0, "", why);
  const Figure figure;
  EXPECT_EQ(markdown_section(figure, {}, result, "pictures").find("missed"), std::string::npos);
  EXPECT_FALSE(to_json(figure, {}, result)["claims"][0].contains("reason"));
  result.report("b", "second", ">= 1", 0, 0, "", why);
  const std::string text = markdown_section(figure, {}, result, "pictures");
  EXPECT_NE(text.find("| first | >= 1 | 2  | met (reported) |"), std::string::npos) << text;
  EXPECT_NE(text.find("| second | >= 1 | 0  | missed (reported), note 1 |"), std::string::npos);
  EXPECT_NE(text.find("- Note 1: " + why), std::string::npos) << text;
  EXPECT_EQ(to_json(figure, {}, result)["claims"][1]["reason"], why);
}

TEST(Section, MarksTargetsOfOursAndStatesDeviations) {
  FigureResult result;
  result.claim("a", "first", ">= 1", 2, 0, "");
  result.claim("b", "second", ">= 1", 2, 0, "");
  result.own_target();
  result.deviations = "Shorter.";
  const Figure figure;
  const std::string text = markdown_section(figure, {}, result, "pictures");
  EXPECT_NE(text.find("| first | >= 1 | 2  | met |"), std::string::npos) << text;
  EXPECT_NE(text.find("| second | >= 1 (ours) | 2  | met |"), std::string::npos) << text;
  EXPECT_NE(text.find("**Deviations.** Shorter.\n"), std::string::npos) << text;
  const nlohmann::json json = to_json(figure, {}, result);
  EXPECT_EQ(json["claims"][0]["own_target"], false);
  EXPECT_EQ(json["claims"][1]["own_target"], true);
  EXPECT_EQ(json["figure"]["deviations"], "Shorter.");
}

TEST(Section, PutsThePapersOwnFigureBesideTheTarget) {
  FigureResult result;
  result.claim("a", "first", ">= 1", 2, 0, "");
  result.own_target();
  result.paper("60 %");
  result.report("b", "second", "", 2, 0, "", "");
  result.paper("19 KB");
  const std::string text = markdown_section({}, {}, result, "pictures");
  EXPECT_NE(text.find("| first | >= 1 (ours); paper: 60 % | 2  | met |"), std::string::npos)
      << text;
  EXPECT_NE(text.find("| second | paper: 19 KB | 2  |  |"), std::string::npos) << text;
  const nlohmann::json json = to_json({}, {}, result);
  EXPECT_EQ(json["claims"][0]["paper"], "60 %");
  EXPECT_EQ(json["claims"][1]["paper"], "19 KB");
}

TEST(Section, OnTheTerminalARowWithoutATargetHasItsNote) {
  FigureResult result;
  result.report("a", "first", "", 2, 0, "", "seen twice");
  result.report("b", "second", ">= 1", 2, 0, "", "to compare");
  const std::string text = claim_lines(result);
  EXPECT_NE(text.find("seen twice"), std::string::npos) << text;
  EXPECT_EQ(text.find("to compare"), std::string::npos) << text;
}

TEST(Section, LeavesOutRowsThatAreThoseOfAnotherForm) {
  FigureResult result;
  result.claim("1.mp.a", "", ">= 1", 2, 0.5, "");
  result.claim("1.mp.b", "", ">= 1", 2, 0, "");
  result.claim("1.mp.c", "", ">= 1", 2, 0, "");
  result.claim("1.shipped.a", "", ">= 1", 2, 0.5, "");
  result.claim("1.shipped.b", "", ">= 1", 2.0000001, 0, "");
  result.report("1.shipped.c", "", ">= 1", 2, 0, "", "");
  result.fold("1.shipped", "1.mp", "mp as shipped");
  std::vector<std::string> ids;
  for (const Claim& claim : result.claims) ids.push_back(claim.id);
  EXPECT_EQ(ids, (std::vector<std::string>{"1.mp.a", "1.mp.b", "1.mp.c", "1.shipped.b",
                                           "1.shipped.c", "1.shipped.same"}));
  EXPECT_EQ(result.claims.back().value, 1);
  EXPECT_EQ(result.claims.back().unit, "of 3");
}

TEST(Section, NamesTheFileOfEachScenarioWhereItStands) {
  for (const Figure& figure : all_figures()) {
    if (figure.scenario.empty()) continue;
    const std::string text = markdown_section(figure, {}, {}, "pictures");
    const size_t at = text.find("scenario `");
    ASSERT_NE(at, std::string::npos) << figure.id;
    const size_t path = at + std::string("scenario `").size();
    const std::string name = text.substr(path, text.find('`', path) - path);
    EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::path(MPRDMA_SOURCE_ROOT) / name))
        << figure.id << ": " << name;
  }
}

}  // namespace
}  // namespace mprdma::figures
