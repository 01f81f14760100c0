// The parser of toml++, compiled once for all who read a configuration. Debian's shared object
// throws exceptions, and would come along into the programs that load the engine.
#define TOML_IMPLEMENTATION
#include <toml++/toml.h>
