package console

import (
	"testing"

	"github.com/breakwater-k8s/breakwater/internal/testplane"
)

func TestMain(m *testing.M) { testplane.Main(m) }
