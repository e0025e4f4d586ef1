package local_test

import (
	"context"
	"testing"

	"github.com/go-logr/logr"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// Measures the start of three usable clusters, with the programs in the page cache.
func BenchmarkFederationUp(b *testing.B) {
	topology, err := federation.Embedded("federated")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		started, err := local.Start(context.Background(), topology, local.Options{Binaries: binaries(), Log: logr.Discard()})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := started.Stop(context.Background()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/op")
}
