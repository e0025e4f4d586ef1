package scheduling_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
	"github.com/breakwater-k8s/breakwater/e2e/harness/subprocess"
)

// zoneCSchedulerConfig is the configuration of a scheduler that puts pods into zone c. Its arguments are a kubeconfig and the scheduler name.
const zoneCSchedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q}
leaderElection: {leaderElect: false}
profiles:
- schedulerName: %s
  pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [c]}]}]
`

// TestPolicySetsScheduler runs a second kube-scheduler, which puts pods into zone c by its configuration.
func TestPolicySetsScheduler(t *testing.T) {
	claim(t, "pods wait for the scheduler that the policy names, and run where it places them", func(l *fixture) {
		const name = "zone-c-scheduler"
		createPolicy(l, "scheduler", selectsWeb+"schedulerName: "+name)
		waitForPolicies(l)
		createPods(l, here(l), "web", 3)
		createPods(l, here(l), "other", 1)
		expectDefaultsOnly(l, waitForRunning(l, here(l), "other", 1)[0])
		list, err := here(l).Client.CoreV1().Pods(l.Namespace).List(l.Context(), metav1.ListOptions{LabelSelector: "app=web"})
		l.Must(err)
		if at := countByNode(here(l), list.Items, zoneOf); at["nowhere"] != 3 {
			l.Errorf("pods are at %v while their scheduler does not run", at)
		}
		startScheduler(l, name)
		expectPlacement(l, here(l), "web", zoneOf, map[string]int{"zone c": 3})
	})
}

// startScheduler runs a scheduler in the cell here until the test ends.
func startScheduler(l *fixture, name string) {
	l.Helper()
	program, err := local.BuiltProgram("kube-scheduler")
	l.Must(err)
	file := filepath.Join(l.TempDir(), "scheduler.yaml")
	l.Must(os.WriteFile(file, fmt.Appendf(nil, zoneCSchedulerConfig, l.Federation().Workers()[0].Kubeconfig(), name), 0o600))
	process := exec.CommandContext(l.Context(), program, "--config="+file, "--secure-port=0")
	output := &subprocess.Output{}
	process.Stdout, process.Stderr = output, output
	l.Must(process.Start())
	l.Cleanup(func() {
		_ = process.Wait() // the end of the test killed it
		if l.Failed() {
			l.Logf("log of the scheduler:\n%s", output)
		}
	})
}
