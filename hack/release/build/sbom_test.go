package build

import (
	"runtime/debug"
	"testing"
)

func TestLibrary(t *testing.T) {
	for claim, test := range map[string]struct {
		module debug.Module
		want   string
	}{
		"a module":                           {debug.Module{Path: "a", Version: "v1.0.0"}, "pkg:golang/a@v1.0.0"},
		"a module that another one replaces": {debug.Module{Path: "a", Version: "v1.0.0", Replace: &debug.Module{Path: "b", Version: "v2.0.0"}}, "pkg:golang/b@v2.0.0"},
		"a module of the workspace":          {debug.Module{Path: "a", Version: "(devel)"}, "pkg:golang/a@0.3.0"},
	} {
		t.Run(claim, func(t *testing.T) {
			if got := library(&test.module, "0.3.0").PackageURL; got != test.want {
				t.Errorf("library() = %s, want %s", got, test.want)
			}
		})
	}
}
