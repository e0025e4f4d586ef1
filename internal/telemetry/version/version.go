// Package version says which build of Breakwater runs.
package version

import "runtime/debug"

// Version is set by the linker (make build); go install leaves it to the module's own version.
var Version = "" //nolint:gochecknoglobals // the linker has no other way in

// String returns the version of this build, "devel" when none is known.
func String() string {
	if Version != "" {
		return Version
	}
	if build, ok := debug.ReadBuildInfo(); ok && build.Main.Version != "" && build.Main.Version != "(devel)" {
		return build.Main.Version
	}
	return "devel"
}
