// The events of a run as text.

#include <algorithm>
#include <charconv>
#include <string_view>

#include "tests/explore/scene.hpp"

namespace mprdma::explore {

namespace {

constexpr char kLetters[] = {'d', 'l', 'u', 'k', 't', 'p', 'r'};

bool names_side(EventKind kind) {
  return kind != EventKind::kTime;
}

bool parse_event(std::string_view text, Event& event) {
  const std::string_view letters(kLetters, sizeof(kLetters));
  const size_t kind = text.empty() ? std::string_view::npos : letters.find(text[0]);
  if (kind == std::string_view::npos) return false;
  event = {static_cast<EventKind>(kind)};
  if (!names_side(event.kind)) return text.size() == 1;
  if (text.size() < 3 || (text[1] != 'a' && text[1] != 'b')) return false;
  event.side = text[1] == 'a' ? 0 : 1;
  const char* const end = text.data() + text.size();
  return std::from_chars(text.data() + 2, end, event.index).ptr == end;
}

}  // namespace

std::string to_string(const Event& event) {
  std::string text(1, kLetters[static_cast<size_t>(event.kind)]);
  if (!names_side(event.kind)) return text;
  return text + (event.side == 0 ? 'a' : 'b') + std::to_string(event.index);
}

std::string to_string(const std::vector<Event>& events) {
  std::string text;
  for (const Event& event : events) text += (text.empty() ? "" : ",") + to_string(event);
  return text;
}

bool parse_events(const std::string& text, std::vector<Event>& events) {
  events.clear();
  for (size_t at = 0; at < text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    Event event;
    if (!parse_event(std::string_view(text).substr(at, comma - at), event)) return false;
    events.push_back(event);
    at = comma + 1;
  }
  return true;
}

}  // namespace mprdma::explore
