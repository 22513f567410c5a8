// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/endpoint.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::launch {

namespace {

[[noreturn]] void refuse(std::string_view flag,
                         std::string_view text,
                         std::string_view problem,
                         std::string_view next) {
  throw Error({.fault = Fault::Usage,
               .where = {.subject = std::string(flag)},
               .problem = std::string(problem),
               .found = cat("'", text, "'"),
               .next = std::string(next)});
}

bool is_ipv6(const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return inet_pton(AF_INET6, text.substr(0, text.find('%')).c_str(), address.data()) == 1;
}

constexpr std::string_view kForms = "Write host:port, or [address]:port for an IPv6 address";

}  // namespace

int parse_port(std::string_view text, std::string_view flag) {
  const auto port = parse_int(text);
  if (!port || *port < 0 || *port > 65535) {
    refuse(flag,
           text,
           "a port is a whole number from 0 to 65535",
           "Give a free port, or leave it out for a free one");
  }
  return static_cast<int>(*port);
}

Endpoint parse_endpoint(std::string_view text, std::string_view flag) {
  const std::string_view trimmed = trim(text);
  if (trimmed.empty())
    refuse(flag, text, "the endpoint is empty", kForms);
  if (trimmed.front() == '[') {
    const std::size_t close = trimmed.find(']');
    if (close == std::string_view::npos)
      refuse(flag, text, "the bracket is not closed", kForms);
    const std::string host(trimmed.substr(1, close - 1));
    const std::string_view rest = trimmed.substr(close + 1);
    if (!is_ipv6(host))
      refuse(flag, text, "what is in brackets is no IPv6 address", kForms);
    if (rest.empty())
      return {host, std::nullopt};
    if (rest.front() != ':')
      refuse(flag, text, "only :port may follow the bracket", kForms);
    return {host, parse_port(rest.substr(1), flag)};
  }
  const auto colons = std::count(trimmed.begin(), trimmed.end(), ':');
  if (colons == 0)
    return {std::string(trimmed), std::nullopt};
  const std::size_t last = trimmed.rfind(':');
  const std::string_view tail = trimmed.substr(last + 1);
  if (colons == 1) {
    if (last == 0)
      refuse(flag, text, "the host is missing", kForms);
    return {std::string(trimmed.substr(0, last)), parse_port(tail, flag)};
  }
  const std::string whole(trimmed);
  // "fe80::1:29500" is an address, and "fe80::1" with a port. "::1" has no such second reading.
  const bool could_have_port =
      parse_int(tail).has_value() && is_ipv6(std::string(trimmed.substr(0, last)));
  if (could_have_port) {
    refuse(flag,
           text,
           "this is ambiguous: the last number may be a port or part of the IPv6 address",
           "Write [address]:port, or give the port by --master-port and the address in brackets");
  }
  if (!is_ipv6(whole))
    refuse(flag, text, "this is neither host:port nor an IPv6 address", kForms);
  return {whole, std::nullopt};
}

std::string endpoint_text(std::string_view host, int port) {
  return contains(host, ":") ? cat("[", host, "]:", port) : cat(host, ":", port);
}

}  // namespace lockstep::launch
