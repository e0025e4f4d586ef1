package doctor

import (
	"os"
	"strings"
	"testing"
)

func TestOldestKubernetesIsThatOfTheCharts(t *testing.T) {
	for _, chart := range []string{"breakwater", "breakwater-crds"} {
		raw, err := os.ReadFile("../../../charts/" + chart + "/Chart.yaml")
		if err != nil {
			t.Fatal(err)
		}
		if want := `kubeVersion: ">=` + minKubernetes + `-0"`; !strings.Contains(string(raw), want) {
			t.Errorf("Chart.yaml of %s does not have %s", chart, want)
		}
	}
}
