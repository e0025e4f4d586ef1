// Package version provides the version of the build.
package version

import "runtime/debug"

// Version is set by the linker (make build). With go install it is empty, and String uses the module version.
var Version = "" //nolint:gochecknoglobals // the linker can set only a variable

// String returns the version of this build, or "devel" if it is unknown.
func String() string {
	if Version != "" {
		return Version
	}
	if build, ok := debug.ReadBuildInfo(); ok && build.Main.Version != "" && build.Main.Version != "(devel)" {
		return build.Main.Version
	}
	return "devel"
}
