# The library as users link it: lockstep::lockstep, by add_subdirectory or by find_package(lockstep) from an install tree.
include(CMakePackageConfigHelpers)

get_property(_libraries GLOBAL PROPERTY LOCKSTEP_LIBRARIES)
add_library(lockstep_all INTERFACE)
target_link_libraries(lockstep_all INTERFACE ${_libraries})
set_target_properties(lockstep_all PROPERTIES EXPORT_NAME lockstep)
add_library(lockstep::lockstep ALIAS lockstep_all)

set(_package ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
install(TARGETS lockstep_all ${_libraries} EXPORT lockstep ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS lockstep lockstep-engine RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY src/lockstep DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT lockstep NAMESPACE lockstep:: FILE lockstep-targets.cmake DESTINATION ${_package})
install(FILES cmake/torch.cmake cmake/dependencies.cmake DESTINATION ${_package})
configure_package_config_file(cmake/lockstep-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/lockstep-config.cmake
  INSTALL_DESTINATION ${_package})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/lockstep-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/lockstep-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/lockstep-config-version.cmake DESTINATION ${_package})
