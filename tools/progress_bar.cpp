#include "tools/progress_bar.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace mprdma::tools {

namespace {

constexpr int kWidth = 24;
// Share of the work below which the time left cannot be judged.
constexpr double kShareToJudge = 0.01;

double milliseconds(switchsim::SimTime time) {
  return static_cast<double>(time.ps()) / 1e9;
}

std::string time_left(double share, double elapsed_s) {
  if (share < kShareToJudge || share >= 1) return {};
  const int64_t seconds = std::llround(elapsed_s * (1 - share) / share);
  if (seconds >= 3600) return fmt::format("  {}:{:02} h left", seconds / 3600, seconds / 60 % 60);
  return fmt::format("  {}:{:02} left", seconds / 60, seconds % 60);
}

}  // namespace

std::string progress_line(const switchsim::Progress& progress, double elapsed_s) {
  const double share = std::clamp(progress.share, 0.0, 1.0);
  const auto filled = static_cast<size_t>(share * kWidth);
  std::string out =
      fmt::format("[{:<{}}] {:3.0f} %  ", std::string(filled, '#'), kWidth, share * 100);
  if (progress.runs > 1) {
    out += fmt::format("{} of {} runs  {:.1f} ms", progress.runs_done, progress.runs,
                       milliseconds(progress.now));
  } else {
    out +=
        fmt::format("{:.3f} of {:.3f} ms", milliseconds(progress.now), milliseconds(progress.end));
  }
  const double rate = elapsed_s > 0 ? static_cast<double>(progress.events) / elapsed_s : 0;
  return out + fmt::format("  {:.1f} M events/s", rate / 1e6) + time_left(share, elapsed_s);
}

ProgressBar::ProgressBar(std::string label)
    : shown_(isatty(STDERR_FILENO) == 1), label_(std::move(label)), begun_(Clock::now()) {}

ProgressBar::~ProgressBar() {
  if (painted_) fmt::print(stderr, "\r\033[K");
}

void ProgressBar::show(const switchsim::Progress& progress) {
  if (!shown_) return;
  const Clock::time_point now = Clock::now();
  if (now - painted_at_ < std::chrono::milliseconds(100)) return;
  painted_at_ = now;
  painted_ = true;
  const double elapsed_s = std::chrono::duration<double>(now - begun_).count();
  fmt::print(stderr, "\r{}{}\033[K", label_, progress_line(progress, elapsed_s));
  std::fflush(stderr);
}

}  // namespace mprdma::tools
