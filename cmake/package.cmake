# find_package(lockstep) from an install tree; add_subdirectory needs nothing of this.
include(CMakePackageConfigHelpers)
get_property(_libraries GLOBAL PROPERTY LOCKSTEP_LIBRARIES)
add_library(lockstep_all INTERFACE)
target_link_libraries(lockstep_all INTERFACE ${_libraries})
set_target_properties(lockstep_all PROPERTIES EXPORT_NAME lockstep)
add_library(lockstep::lockstep ALIAS lockstep_all)
