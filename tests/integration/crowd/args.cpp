#include "tests/integration/crowd/args.hpp"

#include <getopt.h>
#include <rdma/rdma_cma.h>

#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace mprdma::crowd {

namespace {

uint32_t own_number = 0;

[[noreturn]] void usage() {
  std::fputs(
      "usage: crowd --address IP --directory DIR --number N [--port P] [--peers N,N,..]\n"
      "             [--incoming COUNT]\n"
      "       crowd --address IP --claim tcp:P,udp:P,..\n",
      stderr);
  std::exit(2);
}

double seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

uint32_t to_number(const std::string& text) {
  char* end = nullptr;
  const unsigned long value = std::strtoul(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0') usage();
  return static_cast<uint32_t>(value);
}

Port to_port(const std::string& text) {
  const bool udp = text.starts_with("udp:");
  if (!udp && !text.starts_with("tcp:")) usage();
  return {static_cast<uint16_t>(udp ? RDMA_PS_UDP : RDMA_PS_TCP),
          static_cast<uint16_t>(to_number(text.substr(4)))};
}

}  // namespace

void set_number(uint32_t number) {
  own_number = number;
}

void fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::fprintf(stderr, "crowd %u, at %.3f s: ", own_number, seconds());
  std::vfprintf(stderr, format, arguments);
  std::fputc('\n', stderr);
  va_end(arguments);
  std::exit(1);
}

Args parse_args(int argc, char** argv) {
  Args args;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) usage();
    const std::string name = argv[i];
    const std::string value = argv[i + 1];
    if (name == "--directory") {
      args.directory = value;
    } else if (name == "--address") {
      args.address = value;
    } else if (name == "--number") {
      args.number = to_number(value);
    } else if (name == "--port") {
      args.port = static_cast<uint16_t>(to_number(value));
    } else if (name == "--peers") {
      for (const std::string& peer : split(value)) args.peers.push_back(to_number(peer));
    } else if (name == "--incoming") {
      args.incoming = to_number(value);
    } else if (name == "--claim") {
      for (const std::string& port : split(value)) args.claim.push_back(to_port(port));
    } else {
      usage();
    }
  }
  if (args.address.empty() || (args.directory.empty() && args.claim.empty())) usage();
  return args;
}

}  // namespace mprdma::crowd
