package webhookconfig_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

func TestRootGuardPath(t *testing.T) {
	for want, place := range map[string]struct {
		core  string
		cells []string
	}{
		"/roots/cores/core":                      {"core", nil},
		"/roots/cells/worker-1":                  {"", []string{"worker-1"}},
		"/roots/cores/core/cells/local":          {"core", []string{"local"}},
		"/roots/cells/a/b":                       {"", []string{"a", "b"}},
		"/roots/cores/cells/cells/cores/cells":   {"cells", []string{"cores", "cells"}},
		"/roots/cores/cores/cells/zone-a/zone-b": {"cores", []string{"zone-a", "zone-b"}},
	} {
		path := webhookconfig.RootGuardPath(place.core, place.cells...)
		if path != want {
			t.Errorf("RootGuardPath(%q, %q) = %q, want %q", place.core, place.cells, path, want)
		}
		core, cells, ok := webhookconfig.ParseRootGuardPath(strings.TrimPrefix(path, "/roots/"))
		if core != place.core || !slices.Equal(cells, place.cells) || !ok {
			t.Errorf("ParseRootGuardPath() of %s = %q, %q, %v; want %q, %q", path, core, cells, ok, place.core, place.cells)
		}
	}
	for _, path := range []string{"", "cores/", "cells/", "cells", "cores/a/b", "cells/a//b", "rings/a", "cores/a/rings/b"} {
		if core, cells, ok := webhookconfig.ParseRootGuardPath(path); ok {
			t.Errorf("ParseRootGuardPath(%q) = %q, %q, want ok = false", path, core, cells)
		}
	}
}
