# How every native library of the package is compiled: warnings, hardening, sanitizers.
set(POOLGRAD_SANITIZE "" CACHE STRING "Sanitizer to build with: address, undefined or thread")
option(POOLGRAD_STATIC_CXX "Link the C++ library in, so that any one of the machine's will do" OFF)

add_library(poolgrad_options INTERFACE)
target_compile_options(poolgrad_options INTERFACE -Wall -Wextra -Werror -fvisibility=hidden -fvisibility-inlines-hidden)
# The same bytes wherever the sources are.
target_compile_options(poolgrad_options INTERFACE -ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
if(POOLGRAD_STATIC_CXX)
  target_link_options(poolgrad_options INTERFACE -static-libstdc++ LINKER:--gc-sections)
endif()
# What is loaded is read-only once it is relocated, and an overwritten stack ends the process.
target_compile_options(poolgrad_options INTERFACE -fstack-protector-strong)
target_link_options(poolgrad_options INTERFACE LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
if(POOLGRAD_SANITIZE)
  target_compile_options(poolgrad_options INTERFACE -fsanitize=${POOLGRAD_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -O1)
  # GCC takes instrumented reads of an empty std::optional for reads of its value.
  target_compile_options(poolgrad_options INTERFACE -Wno-maybe-uninitialized)
  target_link_options(poolgrad_options INTERFACE -fsanitize=${POOLGRAD_SANITIZE})
else()
  # The C library checks sizes that the compiler knows. It needs an optimised build, and sanitizers check more.
  target_compile_options(poolgrad_options INTERFACE $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE$<SEMICOLON>-D_FORTIFY_SOURCE=2>)
endif()
