#include "evaluation/plot.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

extern char** environ;

namespace mprdma::figures {

namespace {

constexpr std::array<const char*, 8> kPalette = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                 "#E69F00", "#56B4E9", "#7A5230", "#333333"};
constexpr std::array<int, 8> kPoints = {7, 5, 9, 13, 11, 6, 4, 8};
constexpr const char* kPaperColour = "#8C1D40";
constexpr int kPanelWidth = 580;
constexpr int kPanelHeight = 370;
constexpr int kHeaderLine = 26;
constexpr int kFootLine = 17;
constexpr int kLegendLine = 18;
constexpr size_t kLegendCharactersMax = 68;
constexpr size_t kSampleCharacters = 6;  // width of a line's sample and the gap behind it
constexpr size_t kTitleCharactersPerPanel = 66;
constexpr size_t kFootCharactersPerPanel = 96;

std::vector<std::string> wrap(const std::string& text, size_t width) {
  std::vector<std::string> lines;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = std::min(begin + width, text.size());
    if (end < text.size()) {
      const size_t space = text.rfind(' ', end);
      if (space != std::string::npos && space > begin) end = space;
    }
    lines.push_back(text.substr(begin, end - begin));
    begin = end + (end < text.size() && text[end] == ' ' ? 1 : 0);
  }
  return lines;
}

// Gnuplot executes text between backquotes, also inside a string.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '`') c = '\'';
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out + "\"";
}

// The layout of a picture in pixels, with the place of each panel.
struct Layout {
  int columns = 1;
  int rows = 1;
  int legend_rows = 1;  // largest number that a panel needs
  std::vector<std::string> title;
  std::vector<std::string> foot;
  [[nodiscard]] int head_px() const { return 14 + kHeaderLine * static_cast<int>(title.size()); }
  [[nodiscard]] int foot_px() const { return 8 + kFootLine * static_cast<int>(foot.size()); }
  [[nodiscard]] int width() const { return std::max(columns * kPanelWidth, 700); }
  [[nodiscard]] int panel_px() const { return kPanelHeight + (legend_rows - 1) * kLegendLine; }
  [[nodiscard]] int height() const { return head_px() + rows * panel_px() + foot_px(); }
};

// Legend entries below a panel; all are in one row if they fit.
int legend_columns(const Panel& panel) {
  size_t count = 0;
  size_t longest = 0;
  for (const Curve& curve : panel.curves) {
    if (!panel.legend || !curve.legend) continue;
    ++count;
    longest = std::max(longest, curve.name.size());
  }
  const size_t fit = kLegendCharactersMax / (longest + kSampleCharacters);
  return static_cast<int>(std::clamp<size_t>(fit, 1, std::max<size_t>(count, 1)));
}

int legend_rows(const Panel& panel) {
  const int columns = legend_columns(panel);
  return (static_cast<int>(panel.curves.size()) + columns - 1) / columns;
}

Layout lay_out(const Picture& picture) {
  const int panels = static_cast<int>(picture.panels.size());
  Layout out;
  out.columns = picture.columns != 0 ? picture.columns : (panels <= 3 ? panels : 2);
  out.columns = std::max(out.columns, 1);
  out.rows = (panels + out.columns - 1) / out.columns;
  for (const Panel& panel : picture.panels) {
    if (panel.legend) out.legend_rows = std::max(out.legend_rows, legend_rows(panel));
  }
  const size_t units = static_cast<size_t>(std::max(out.width() / kPanelWidth, 1));
  out.title = wrap(picture.title, kTitleCharactersPerPanel * units);
  out.foot = wrap(picture.footnote, kFootCharactersPerPanel * units);
  return out;
}

int colour_of(const Panel& panel, size_t index) {
  if (panel.curves[index].colour >= 0) return panel.curves[index].colour % 8;
  return static_cast<int>(index % kPalette.size());
}

size_t bar_count(const Panel& panel) {
  return static_cast<size_t>(
      std::count_if(panel.curves.begin(), panel.curves.end(),
                    [](const Curve& c) { return c.stroke == Stroke::kBars; }));
}

// The bars of one x stand side by side in a width of 0.8.
double bar_offset(const Panel& panel, size_t index, double* width) {
  const size_t bars = bar_count(panel);
  size_t before = 0;
  for (size_t i = 0; i < index; ++i) before += panel.curves[i].stroke == Stroke::kBars ? 1 : 0;
  *width = 0.8 / static_cast<double>(bars);
  return (static_cast<double>(before) + 0.5) * *width - 0.4;
}

std::string data_block(const std::string& name, const Panel& panel, size_t index) {
  const Curve& curve = panel.curves[index];
  double width = 0;
  const double offset = curve.stroke == Stroke::kBars ? bar_offset(panel, index, &width) : 0.0;
  std::string out = fmt::format("${} << EOD\n", name);
  for (size_t i = 0; i < curve.x.size(); ++i) {
    const double error = i < curve.error.size() ? curve.error[i] : 0;
    out += fmt::format("{:.6g} {:.6g} {:.4g} {:.4g}\n", curve.x[i] + offset, curve.y[i], error,
                       width * 0.9);
  }
  return out + "EOD\n";
}

std::string clause(const Panel& panel, size_t index, const std::string& data) {
  const Curve& curve = panel.curves[index];
  const int colour = colour_of(panel, index);
  const char* rgb = kPalette[static_cast<size_t>(colour)];
  const int point = kPoints[static_cast<size_t>(colour)];
  const std::string name =
      curve.legend && panel.legend ? fmt::format("title {}", quoted(curve.name)) : "notitle";
  const std::string dash = curve.dashed ? " dt (12,6)" : "";
  const bool errors = !curve.error.empty();
  switch (curve.stroke) {
    case Stroke::kBars:
      if (errors) {
        return fmt::format(
            "${} using 1:2:3:4 with boxerrorbars fs solid 0.85 border rgb '#333333' lw 1 "
            "lc rgb '{}' {}",
            data, rgb, name);
      }
      return fmt::format("${} using 1:2:4 with boxes fs solid 0.85 noborder lc rgb '{}' {}", data,
                         rgb, name);
    case Stroke::kSteps:
      return fmt::format("${} using 1:2 with steps lc rgb '{}' lw 2{} {}", data, rgb, dash, name);
    case Stroke::kLine:
      return fmt::format("${} using 1:2 with lines lc rgb '{}' lw 2{} {}", data, rgb, dash, name);
    case Stroke::kPoints:
      return fmt::format("${} using 1:2 with points lc rgb '{}' pt {} ps 1.1 {}", data, rgb, point,
                         name);
    case Stroke::kLinePoints:
      break;
  }
  return fmt::format("${} using {} lc rgb '{}' lw 2 pt {} ps 1.1{} {}", data,
                     errors ? "1:2:3 with yerrorlines" : "1:2 with linespoints", rgb, point, dash,
                     name);
}

// Draws the line of each mark across the panel. Its text stands above it, at the left for the
// paper's values, else at the right.
std::string mark_clauses(const Panel& panel) {
  std::string out;
  int id = 1;
  for (const Mark& mark : panel.marks) {
    const char* rgb = mark.paper ? kPaperColour : "#555555";
    out += fmt::format(
        "set arrow {0} from graph 0, first {1:.6g} to graph 1, first {1:.6g} nohead lc rgb '{2}' "
        "lw 1.2 dt (4,4) back\n",
        id, mark.y, rgb);
    out += fmt::format(
        "set label {0} {1} at graph {2}, first {3:.6g} {4} offset 0,0.45 tc rgb '{5}' "
        "font ',9.5' front\n",
        id, quoted(mark.text), mark.paper ? 0.015 : 0.985, mark.y, mark.paper ? "left" : "right",
        rgb);
    ++id;
  }
  return out;
}

// Quotes a tick's name; gnuplot reads it as a format.
std::string quoted_format(const std::string& text) {
  std::string out;
  for (const char c : quoted(text)) out += c == '%' ? "%%" : std::string(1, c);
  return out;
}

std::string ticks(const Panel& panel) {
  if (panel.categories.empty()) return "set xtics auto nomirror out font ',10'\n";
  std::string out = "set xtics (";
  for (size_t i = 0; i < panel.categories.size(); ++i) {
    out += fmt::format("{}{} {}", i == 0 ? "" : ", ", quoted_format(panel.categories[i]), i);
  }
  out += ") nomirror out font ',10'\n";
  return out +
         fmt::format("set xrange [-0.6:{}]\n", static_cast<double>(panel.categories.size()) - 0.4);
}

std::string panel_script(const Panel& panel, size_t index, const Layout& layout) {
  const int column = static_cast<int>(index) % layout.columns;
  const int row = static_cast<int>(index) / layout.columns;
  const double width = layout.width();
  const double height = layout.height();
  const double left = column * width / layout.columns + 74;
  const double right = (column + 1) * width / layout.columns - 22;
  const double top = height - layout.head_px() - row * layout.panel_px() - 30;
  const double bottom = top - kPanelHeight + 30 + 84;
  std::string out = "unset arrow\nunset label\nset xrange [*:*]\n";
  out += fmt::format("set lmargin at screen {:.5f}\nset rmargin at screen {:.5f}\n", left / width,
                     right / width);
  out += fmt::format("set tmargin at screen {:.5f}\nset bmargin at screen {:.5f}\n", top / height,
                     bottom / height);
  out += fmt::format("set title {} font ',11.5' offset 0,-0.4\n", quoted(panel.title));
  out += fmt::format("set xlabel {} offset 0,0.3\nset ylabel {} offset 0.6,0\n",
                     quoted(panel.xlabel), quoted(panel.ylabel));
  out += panel.xlog ? "set logscale x\n" : "unset logscale\n";
  out += fmt::format("set yrange [{}:{}]\n", panel.ymin,
                     panel.ymax == 0 ? std::string("*") : fmt::format("{}", panel.ymax));
  out += ticks(panel);
  out += fmt::format(
      "set key at screen {:.5f},{:.5f} top center horizontal maxcols {} samplen 1.6 spacing 1.05 "
      "reverse Left "
      "width 1 font ',10'\n",
      (left + right) / 2 / width, (bottom - 54) / height, legend_columns(panel));
  out += mark_clauses(panel);
  out += "plot ";
  for (size_t i = 0; i < panel.curves.size(); ++i) {
    out += (i == 0 ? "" : ", \\\n  ") + clause(panel, i, fmt::format("d{}_{}", index, i));
  }
  return out + "\n";
}

std::string screen_text(const std::vector<std::string>& lines, const Layout& layout, bool head) {
  std::string out;
  for (size_t i = 0; i < lines.size(); ++i) {
    const int n = static_cast<int>(i);
    const double y =
        head ? layout.height() - 22 - n * kHeaderLine : layout.foot_px() - 12 - n * kFootLine;
    out += fmt::format("set label {} {} at screen {:.5f},{:.5f} left font '{}' tc rgb '{}'\n",
                       (head ? 900 : 950) + n, quoted(lines[i]), 16.0 / layout.width(),
                       y / layout.height(), head ? ",14" : ",9.5", head ? "#111111" : "#555555");
  }
  return out;
}

std::string script(const Picture& picture, const std::string& base, bool svg) {
  const Layout layout = lay_out(picture);
  std::string out;
  if (svg) {
    out = fmt::format("set terminal svg size {},{} font 'Helvetica,11' background 'white'\n",
                      layout.width(), layout.height());
  } else {
    out = fmt::format("set terminal pngcairo size {},{} font 'Liberation Sans,11'\n",
                      layout.width(), layout.height());
  }
  out += fmt::format("set output {}\nset encoding utf8\n", quoted(base + (svg ? ".svg" : ".png")));
  out +=
      "set border 3 lc rgb '#444444'\nset grid ytics xtics lc rgb '#E3E3E3' lt 1 lw 1\n"
      "set ytics nomirror out font ',10'\nset tics textcolor rgb '#222222'\nset boxwidth 0.25\n";
  for (size_t p = 0; p < picture.panels.size(); ++p) {
    for (size_t c = 0; c < picture.panels[p].curves.size(); ++c) {
      out += data_block(fmt::format("d{}_{}", p, c), picture.panels[p], c);
    }
  }
  out += "set termoption noenhanced\nset multiplot\n";
  for (size_t p = 0; p < picture.panels.size(); ++p) {
    std::string one = panel_script(picture.panels[p], p, layout);
    if (p == 0) {
      const std::string texts =
          screen_text(layout.title, layout, true) + screen_text(layout.foot, layout, false);
      one.insert(one.find("plot "), texts);
    }
    out += one;
  }
  return out + "unset multiplot\nunset output\n";
}

void write_csv(const Picture& picture, const std::string& path) {
  std::ofstream out(path);
  out << "panel,curve,x,y,deviation\n";
  for (const Panel& panel : picture.panels) {
    for (const Curve& curve : panel.curves) {
      for (size_t i = 0; i < curve.x.size(); ++i) {
        out << fmt::format("\"{}\",\"{}\",{:.6g},{:.6g},{:.4g}\n", panel.title, curve.name,
                           curve.x[i], curve.y[i], i < curve.error.size() ? curve.error[i] : 0.0);
      }
    }
  }
}

// Runs gnuplot with a script or an option. It does not share our standard output.
Status run_gnuplot(std::string argument) {
  std::string program = "gnuplot";
  std::array<char*, 3> arguments = {program.data(), argument.data(), nullptr};
  pid_t pid = 0;
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  const int failed =
      posix_spawnp(&pid, program.c_str(), &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0) {
    return {failed, fmt::format("gnuplot: {} (package gnuplot-nox)", std::strerror(failed))};
  }
  int ended = 0;
  while (waitpid(pid, &ended, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(ended) || WEXITSTATUS(ended) != 0) {
    return {EIO, "gnuplot failed on " + argument};
  }
  return {};
}

}  // namespace

Status can_draw() {
  return run_gnuplot("--version");
}

Status draw(const Picture& picture, const std::string& base) {
  write_csv(picture, base + ".csv");
  for (const bool svg : {false, true}) {
    const std::string path = base + ".gnuplot";
    std::ofstream file(path);
    file << script(picture, base, svg);
    file.close();
    if (!file) return {EIO, "cannot write " + path};
    if (Status status = run_gnuplot(path); !status.ok()) return status;
    std::remove(path.c_str());
  }
  return {};
}

}  // namespace mprdma::figures
