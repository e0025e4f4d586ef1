package build

import (
	"strings"
	"testing"
)

func TestInvalidTimeIsAnError(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if _, err := SourceTime(t.Context()); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH") {
		t.Errorf("error %v, want one about SOURCE_DATE_EPOCH", err)
	}
}

func TestInvalidPlatformIsAnError(t *testing.T) {
	for _, list := range []string{"", "linux", "linux/amd64,", "a/b/c/d"} {
		if all, err := ParsePlatforms(list); err == nil || !strings.Contains(err.Error(), "-platforms") {
			t.Errorf("%q: %v, error %v", list, all, err)
		}
	}
}
