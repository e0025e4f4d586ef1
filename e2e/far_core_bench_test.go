package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/proxy"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

var farCore = flag.Bool("far-core", false, "put a proxy between the core and the webhooks and aggregators; BenchmarkFarCore needs it")

// coreProxy is between the core and the webhooks and aggregators, if farCore is set. The other components run beside the core.
var coreProxy *federation.Proxy

// putCoreProxy configures the suite for farCore.
func putCoreProxy(options *install.Options) {
	if !*farCore {
		return
	}
	core := options.Cores[0]
	faults, ok := core.(federation.Faults)
	if !ok {
		panic("this backend has no proxies")
	}
	var err error
	if coreProxy, err = faults.Proxy(context.Background()); err != nil {
		panic(err)
	}
	options.Kubeconfig = func(component string, cluster federation.Cluster) string {
		if cluster.Name() == core.Name() && (strings.HasPrefix(component, "webhook") || strings.HasPrefix(component, "aggregator")) {
			return coreProxy.Kubeconfig()
		}
		return cluster.Kubeconfig()
	}
}

// BenchmarkFarCore measures uncontended removals and storms while the core is far away: each direction of a connection is delayed by half of
// the round-trip time.
func BenchmarkFarCore(b *testing.B) {
	if coreProxy == nil {
		b.Skip("run it with -far-core")
	}
	const clients, pods, alone = 64, 1000, 60
	u, each := usage{}, map[string][]time.Duration{}
	roundTrips := map[string]time.Duration{"0ms": 0, "50ms": 50 * time.Millisecond, "100ms": 100 * time.Millisecond}
	for b.Loop() {
		alternate([]string{"0ms", "50ms", "100ms"}, func(run string) {
			calm, n := newBenchFixture(b, alone, "protected"), newBenchFixture(b, pods, "protected")
			coreProxy.Delay(proxy.Both, roundTrips[run]/2)
			defer coreProxy.Delay(proxy.Both, 0)
			durations, _ := calm.removeAll(1)
			each[run] = append(each[run], durations...)
			n.withPausedNodes(func() {
				u.measure(run, pods, func() time.Duration { _, total := n.removeAll(clients); return total })
			})
		})
	}
	u.report(b)
	for run, roundTrip := range roundTrips {
		reportPercentiles(b, run, each[run])
		if roundTrip > 0 {
			b.ReportMetric(percentile(each[run], 50)/float64(roundTrip.Milliseconds()), fmt.Sprintf("%s-p50-over-rtt", run))
			b.ReportMetric(u.over(run, "0ms"), fmt.Sprintf("%s-storm-over-0ms", run))
		}
	}
}
