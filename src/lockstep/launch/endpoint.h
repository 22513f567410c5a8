// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::launch {

/// An address exactly as it was typed, and a port. They travel apart: an IPv6 address has colons of its own.
struct Endpoint {
  std::string host;
  std::optional<int> port;
};

/// "host", "host:29500", "[::1]:29555", "[::1]", "::1". More than one colon without brackets is a bare IPv6 address only where
/// it cannot be read as address and port as well; otherwise it is refused as ambiguous.
/// Throws Usage that names `flag` and the text.
Endpoint parse_endpoint(std::string_view text, std::string_view flag);

/// A port of 0 to 65535. Throws Usage that names `flag` and the text.
int parse_port(std::string_view text, std::string_view flag);

/// "host:port", with brackets where the host is an IPv6 address.
std::string endpoint_text(std::string_view host, int port);

}  // namespace lockstep::launch
