// SPDX-License-Identifier: Apache-2.0
// A preloaded resolver that answers every reverse lookup with a name that has no forward entry.
#include <cstdio>
#include <netdb.h>

extern "C" int getnameinfo(const sockaddr* /*address*/,
                           socklen_t /*length*/,
                           char* host,
                           socklen_t host_size,
                           char* service,
                           socklen_t service_size,
                           int flags) {
  if (host != nullptr && (flags & NI_NUMERICHOST) == 0)
    std::snprintf(host, host_size, "box-q");
  if (host != nullptr && (flags & NI_NUMERICHOST) != 0)
    std::snprintf(host, host_size, "127.0.0.1");
  if (service != nullptr)
    std::snprintf(service, service_size, "0");
  return 0;
}
