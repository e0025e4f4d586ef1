package testplane_test

import (
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

func TestMain(m *testing.M) { testplane.Main(m) }

func TestAPIServerServesOurCRDs(t *testing.T) {
	testplane.Namespace(t)
}
