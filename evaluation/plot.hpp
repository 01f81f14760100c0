// Pictures of curves, drawn by gnuplot: a PNG to look at and an SVG for pages. Okabe and Ito's
// colours, which people with any kind of colour vision can tell apart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace mprdma::figures {

enum class Stroke : uint8_t {
  kLine,
  kLinePoints,
  kSteps,
  kPoints,
  kBars,  // grouped by x; the x of all bar curves of a panel are 0, 1, 2, ...
};

struct Curve {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;
  std::vector<double> error = {};  // standard deviation; empty: none is drawn
  Stroke stroke = Stroke::kLinePoints;
  int colour = -1;  // 0 to 7 of the palette; -1: the next one
  bool dashed = false;
  bool legend = true;
};

// A horizontal line with a text: the ceiling, a target, what the paper reports.
struct Mark {
  double y = 0;
  std::string text;
  bool paper = false;  // drawn as the paper's
};

struct Panel {
  std::string title;
  std::string xlabel;
  std::string ylabel;
  std::vector<Curve> curves;
  std::vector<Mark> marks = {};
  std::vector<std::string> categories = {};  // names of x = 0, 1, 2, ... instead of numbers
  double ymin = 0;
  double ymax = 0;  // 0: what the curves need
  bool xlog = false;
  bool legend = true;
};

struct Picture {
  std::string title;
  std::string footnote;
  std::vector<Panel> panels;
  int columns = 0;  // 0: all panels in one row up to three, then two columns
};

// Is there a gnuplot that runs? False, with a reason, if not.
Status can_draw();
// Writes base.png, base.svg and base.csv (what is drawn). False, with a reason, if gnuplot is
// missing or fails.
Status draw(const Picture& picture, const std::string& base);

}  // namespace mprdma::figures
