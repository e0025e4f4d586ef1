package scheduling_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	"github.com/breakwater-k8s/breakwater/e2e/harness/measure"
)

// benchmarkRuns returns the runs that benchmarks compare. In the run "unasked" the API server calls no webhook for the pods. In the run "asked"
// no policy matches them, which shows the cost of a webhook call that changes nothing. In the run "scheduled" three of the 1,000 policies match
// them.
func benchmarkRuns() []string { return []string{"unasked", "asked", "scheduled"} }

// benchPolicies is the number of policies.
const benchPolicies = 1000

// BenchmarkPodCreate measures what scheduling policies cost when pods are created, one after another and concurrently.
func BenchmarkPodCreate(b *testing.B) {
	labs := map[string]*fixture{}
	for _, run := range benchmarkRuns() {
		labels := map[string]string{}
		if run == "unasked" {
			labels[v1alpha1.LabelExempt] = "true"
		}
		labs[run] = schedulingSuite.NewFixture(b, labels)
		waitForServiceAccount(labs[run], here(labs[run]))
	}
	createPolicies(labs["scheduled"])
	bypassBalancer(labs["scheduled"])
	checkRuns(labs)
	b.Run("alone", func(b *testing.B) { benchSequential(b, labs) })
	b.Run("storm", func(b *testing.B) { benchStorm(b, labs) })
}

// createPolicies creates benchPolicies policies. Nine tenths are for other applications of the namespace and a tenth is for other namespaces.
// Three match the pods of the benchmark: by a protector, by their labels and by their namespace. It also waits until webhooks have written the
// status of all policies, because those writes take CPU as well.
func createPolicies(l *fixture) {
	l.Helper()
	createProtector(l, "web", "gold")
	createPolicy(l, "spread", `protectorSelector: {matchLabels: {tier: gold}}
topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]`)
	createPolicy(l, "pool", selectsWeb+`nodeSelector: {worker.gardener.cloud/pool: general}
tolerations: [{key: worker.gardener.cloud/pool, operator: Exists}]`)
	createClusterPolicy(l, "zones", "namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: "+l.Namespace+"}}\npodSelector: {}\n"+fmt.Sprintf(zoneAffinity, "a, b"))
	for n := range benchPolicies - 3 {
		of := fmt.Sprintf("podSelector: {matchLabels: {app: other-%d}}\nnodeSelector: {disk: ssd}\n", n)
		if n%10 == 0 {
			createClusterPolicy(l, fmt.Sprint("other-", n), fmt.Sprintf("namespaceSelector: {matchLabels: {team: other-%d}}\n", n)+of)
		} else {
			createPolicy(l, fmt.Sprint("other-", n), of)
		}
	}
	waitForPolicies(l)
	waitForPatches(l, newPod("probe", "web"), "topologySpreadConstraints", poolKey, "nodeAffinity")
	waitForPolicyStatus(l)
}

// bypassBalancer makes the API server call one webhook directly. The balancer of the tests is a process that copies each byte. Real
// installations use a Service, which needs no such process.
func bypassBalancer(l *fixture) {
	l.Helper()
	cluster, err := install.Client(l.Federation().Workers()[0])
	l.Must(err)
	all := &admissionregistrationv1.MutatingWebhookConfigurationList{}
	l.Must(cluster.List(l.Context(), all))
	for i := range all.Items {
		for h := range all.Items[i].Webhooks {
			hook := &all.Items[i].Webhooks[h].ClientConfig
			address, err := url.Parse(*hook.URL)
			l.Must(err)
			_, port, err := net.SplitHostPort(l.Breakwater.WebhookAddresses()[0])
			l.Must(err)
			address.Host = net.JoinHostPort(install.ExternalHost, port)
			direct := address.String()
			hook.URL = &direct
		}
		l.Must(cluster.Update(l.Context(), &all.Items[i]))
	}
}

// waitForPolicyStatus waits until webhooks have reported in the status of all policies that they apply them.
func waitForPolicyStatus(l *fixture) {
	l.Helper()
	until, cancel := context.WithTimeout(l.Context(), 5*time.Minute)
	defer cancel()
	for {
		all, everywhere, left := &v1alpha1.PodSchedulingPolicyList{}, &v1alpha1.ClusterPodSchedulingPolicyList{}, 0
		l.Must(errors.Join(l.Core.List(until, all, client.InNamespace(l.Namespace)), l.Core.List(until, everywhere)))
		for i := range all.Items {
			left += int(min(1, all.Items[i].Generation-all.Items[i].Status.ObservedGeneration))
		}
		for i := range everywhere.Items {
			left += int(min(1, everywhere.Items[i].Generation-everywhere.Items[i].Status.ObservedGeneration))
		}
		if left == 0 {
			return
		}
		select {
		case <-time.After(time.Second):
		case <-until.Done():
			l.Fatalf("the status of %d policies is not written", left)
		}
	}
}

// newUnscheduledPod returns a pod that causes no further work after its creation, because its scheduler does not run.
func newUnscheduledPod() *corev1.Pod {
	pod := newPod("", "web", func(pod *corev1.Pod) { pod.Spec.SchedulerName = "none" })
	pod.GenerateName = "web-"
	return pod
}

func createUnscheduledPod(l *fixture) (*corev1.Pod, error) {
	return here(l).Client.CoreV1().Pods(l.Namespace).Create(l.Context(), newUnscheduledPod(), metav1.CreateOptions{})
}

// checkRuns checks that policies change only the pods of the run "scheduled".
func checkRuns(fixtures map[string]*fixture) {
	for run, l := range fixtures {
		pod, err := createUnscheduledPod(l)
		l.Must(err)
		s := pod.Spec
		if got := len(s.NodeSelector) == 1 && len(s.TopologySpreadConstraints) == 1 && s.Affinity != nil && len(s.Tolerations) == 3; got != (run == "scheduled") {
			l.Fatalf("a pod of run %s became %+v", run, s)
		}
	}
}

// deletePods deletes the pods of a run. It retries, because the API server aborts a request after 10 s here.
func deletePods(l *fixture) {
	l.Helper()
	now := int64(0)
	l.Eventually(func() string {
		return e2e.ErrorText(here(l).Client.CoreV1().Pods(l.Namespace).DeleteCollection(l.Context(), metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}))
	})
}

// benchSequential creates pods one after another, alternating between the runs.
func benchSequential(b *testing.B, fixtures map[string]*fixture) {
	const each = 1000
	took, rounds := map[string][]time.Duration{}, 0
	for b.Loop() {
		for range each {
			for turn := range benchmarkRuns() {
				run := benchmarkRuns()[(rounds+turn)%len(benchmarkRuns())]
				began := time.Now()
				_, err := createUnscheduledPod(fixtures[run])
				took[run] = append(took[run], time.Since(began))
				if err != nil {
					b.Fatal(err)
				}
			}
			rounds++
		}
	}
	for run, all := range took {
		b.ReportMetric(quantile(all, 0.5), run+"-p50-ms")
		b.ReportMetric(quantile(all, 0.99), run+"-p99-ms")
		deletePods(fixtures[run])
	}
	b.ReportMetric(0, "ns/op")
}

func quantile(all []time.Duration, q float64) (milliseconds float64) {
	all = slices.Sorted(slices.Values(all))
	return float64(all[int(math.Ceil(q*float64(len(all))))-1].Microseconds()) / 1000
}

// benchStorm creates pods with 64 concurrent clients. It alternates between the runs, and starts each round with a different one, because the
// speed of the machine changes over minutes.
func benchStorm(b *testing.B, fixtures map[string]*fixture) {
	const clients, pods = 64, 2000
	took, used, rounds := map[string]time.Duration{}, map[string]map[string]time.Duration{}, 0
	for b.Loop() {
		for turn := range benchmarkRuns() {
			run := benchmarkRuns()[(rounds+turn)%len(benchmarkRuns())]
			before := cpuTimeByProcess(fixtures[run])
			total, err := createConcurrently(fixtures[run], clients, pods)
			if err != nil {
				b.Fatal(err)
			}
			took[run] += total
			if used[run] == nil {
				used[run] = map[string]time.Duration{}
			}
			for process, now := range cpuTimeByProcess(fixtures[run]) {
				used[run][process] += now - before[process]
			}
			deletePods(fixtures[run])
		}
		rounds++
	}
	for _, run := range benchmarkRuns() {
		b.ReportMetric(float64(pods*rounds)/took[run].Seconds(), run+"/s")
		for process, all := range used[run] {
			b.ReportMetric(all.Seconds()*1000/float64(pods*rounds), run+"-"+process+"-ms/pod")
		}
	}
	b.ReportMetric(took["unasked"].Seconds()/took["scheduled"].Seconds(), "ratio")
	b.ReportMetric(took["unasked"].Seconds()/took["asked"].Seconds(), "asked-ratio")
	b.ReportMetric(0, "ns/op")
}

// createConcurrently creates pods with the given number of concurrent clients, and returns the duration.
func createConcurrently(l *fixture, clients, pods int) (took time.Duration, err error) {
	todo := make(chan struct{}, pods)
	for range pods {
		todo <- struct{}{}
	}
	close(todo)
	var running sync.WaitGroup
	failed := make([]error, clients)
	began := time.Now()
	for n := range clients {
		running.Go(func() {
			for range todo {
				if _, err := createUnscheduledPod(l); err != nil {
					failed[n] = err
					return
				}
			}
		})
	}
	running.Wait()
	return time.Since(began), errors.Join(failed...)
}

// cpuTimeByProcess returns the CPU time used so far by the processes that handle a CREATE in the cell here: the webhooks and the components of
// the cluster.
func cpuTimeByProcess(l *fixture) map[string]time.Duration {
	return measure.CPUTimes("cmdline", func(_ int, commandLine string) string {
		arguments := strings.Split(commandLine, "\x00")
		switch {
		case len(arguments) < 2 || !strings.Contains(commandLine, l.Dir()):
		case arguments[0] == l.Program() && arguments[1] == "webhook":
			return "webhooks"
		case strings.Contains(commandLine, "/worker-1/") && arguments[0] != l.Program():
			return filepath.Base(arguments[0])
		}
		return ""
	})
}
