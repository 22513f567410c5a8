# Libraries of the torch-free parts; docs/dependencies.md has the reason for each.
find_package(Threads REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(spdlog REQUIRED)
find_path(LOCKSTEP_XXHASH_INCLUDE xxhash.h REQUIRED)
find_package(Boost REQUIRED)  # headers only
find_path(LOCKSTEP_PROTOZERO_INCLUDE protozero/pbf_writer.hpp REQUIRED)
