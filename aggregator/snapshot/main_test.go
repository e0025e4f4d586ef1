package snapshot

import (
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

func TestMain(m *testing.M) { testplane.Main(m) }
