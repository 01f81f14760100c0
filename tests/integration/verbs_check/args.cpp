#include "tests/integration/verbs_check/args.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace mprdma::verbs_check {

namespace {

const char* g_role = "";

[[noreturn]] void usage(const char* culprit) {
  if (culprit != nullptr) std::fprintf(stderr, "verbs_check: what is '%s'?\n", culprit);
  std::fputs(
      "usage: verbs_check --server SOCKET | --client SOCKET  [MODE] [OPTION]...\n"
      "Both ends need the same mode and options. Modes (default: random traffic):\n"
      "  --last-byte      multi-packet WRITEs, the receiver polls memory only\n"
      "  --kill-peer      the client kills itself under traffic; the server expects "
      "RETRY_EXC_ERR;\n"
      "                   --ops rounds, each with a new client\n"
      "  --bad            requests that must fail, and how\n"
      "  --idle           connected and asleep: costs no CPU\n"
      "  --ordering       WRITE data, then a flag; the server polls the flag and counts stale "
      "data;\n"
      "                   --synchronise: on the flag; --expect-stale: none is a failure\n"
      "Options: --relaxed (memory with relaxed ordering)\n"
      "         --active (the port has to be active once the queue pairs exist)\n"
      "         --seed N --ops N --size-max BYTES --qps N --mtu BYTES --events --timeout CODE\n"
      "         --retry-cnt N --stall SECONDS --idle-ms N --cpu-max PERCENT --device NAME\n",
      stderr);
  std::exit(2);
}

uint64_t number(const char* option, const char* text) {
  char* end = nullptr;
  const uint64_t value = std::strtoull(text, &end, 0);
  if (end == text || *end != '\0') usage(option);
  return value;
}

bool parse_mode(std::string_view option, Args* args) {
  if (option == "--last-byte")
    args->mode = Mode::kLastByte;
  else if (option == "--kill-peer")
    args->mode = Mode::kKillPeer;
  else if (option == "--bad")
    args->mode = Mode::kBad;
  else if (option == "--idle")
    args->mode = Mode::kIdle;
  else if (option == "--ordering")
    args->mode = Mode::kOrdering;
  else if (option == "--relaxed")
    args->relaxed = true;
  else if (option == "--synchronise")
    args->synchronise = true;
  else if (option == "--expect-stale")
    args->expect_stale = true;
  else if (option == "--events")
    args->events = true;
  else if (option == "--active")
    args->active = true;
  else
    return false;
  return true;
}

bool parse_number(std::string_view option, const char* text, Args* args) {
  struct Entry {
    std::string_view option;
    uint32_t* value;
  };
  const Entry entries[] = {
      {"--ops", &args->ops},         {"--size-max", &args->size_max},
      {"--qps", &args->qps},         {"--mtu", &args->mtu},
      {"--timeout", &args->timeout}, {"--retry-cnt", &args->retry_cnt},
      {"--stall", &args->stall_s},   {"--idle-ms", &args->idle_ms},
  };
  for (const Entry& entry : entries) {
    if (option == entry.option) {
      *entry.value = static_cast<uint32_t>(number(entry.option.data(), text));
      return true;
    }
  }
  return false;
}

bool parse_value(std::string_view option, const char* text, Args* args) {
  if (option == "--server" || option == "--client") {
    args->server = option == "--server";
    args->socket_path = text;
  } else if (option == "--seed") {
    args->seed = number("--seed", text);
  } else if (option == "--cpu-max") {
    args->cpu_percent_max = std::strtod(text, nullptr);
  } else if (option == "--device") {
    args->device = text;
  } else {
    return parse_number(option, text, args);
  }
  return true;
}

void print(FILE* stream, const char* kind, const char* format, va_list list) {
  std::fprintf(stream, "verbs_check %s: %s", g_role, kind);
  std::vfprintf(stream, format, list);
  std::fputc('\n', stream);
  std::fflush(stream);
}

}  // namespace

Args parse_args(int argc, char** argv) {
  Args args;
  for (int i = 1; i < argc; ++i) {
    if (parse_mode(argv[i], &args)) continue;
    if (i + 1 == argc || !parse_value(argv[i], argv[i + 1], &args)) usage(argv[i]);
    ++i;
  }
  if (args.socket_path.empty() || args.qps == 0 || args.ops == 0 || args.size_max < 8) {
    usage(nullptr);
  }
  return args;
}

void set_role(const char* role) {
  g_role = role;
}

void fail(const char* format, ...) {
  va_list list;
  va_start(list, format);
  print(stderr, "FAIL: ", format, list);
  va_end(list);
  std::_Exit(1);
}

void say(const char* format, ...) {
  va_list list;
  va_start(list, format);
  print(stdout, "", format, list);
  va_end(list);
}

}  // namespace mprdma::verbs_check
