package rootguard_test

import (
	"fmt"
	"testing"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/rootguard"
)

// BenchmarkNamespaceOf10000 measures the whole decision about a namespace with 10,000 PodProtectors, each counted in two cells.
func BenchmarkNamespaceOf10000(b *testing.B) {
	all := make([]*v1alpha1.PodProtector, 10_000)
	for i := range all {
		all[i] = protector("web", 3, ofDeployment(fmt.Sprint("web-", i)), counted("a", 4), counted("b", 2))
	}
	at := rootguard.ClusterIdentity{Core: "core", Cells: []string{"a", "b"}}
	namespace := &rootguard.Object{Name: "shop"}
	namespace.Kind.Kind = "Namespace"
	for b.Loop() {
		q := &rootguard.Deletion{Mode: rootguard.Warn, Cluster: at, Object: namespace, Now: now()}
		if a := q.Decide(floorsOf(at, all...)); a.Floors != len(all) {
			b.Fatalf("%d floors, want %d", a.Floors, len(all))
		}
	}
}
