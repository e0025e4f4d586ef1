package scheduling_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/internal/federation/local"
)

// onlyZoneC is the configuration of a scheduler of that name.
const onlyZoneC = `apiVersion: kubescheduler.config.k8s.io/v1
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

// startScheduler runs one in the cell here until the test ends.
func startScheduler(l *lab, name string) {
	l.Helper()
	program, err := local.BuiltProgram("kube-scheduler")
	l.Must(err)
	file := filepath.Join(l.TempDir(), "scheduler.yaml")
	l.Must(os.WriteFile(file, fmt.Appendf(nil, onlyZoneC, l.Federation().Workers()[0].Kubeconfig(), name), 0o600))
	process := exec.CommandContext(l.Context(), program, "--config="+file, "--secure-port=0")
	said := &e2e.Output{}
	process.Stdout, process.Stderr = said, said
	l.Must(process.Start())
	l.Cleanup(func() {
		_ = process.Wait() // the test's end has killed it
		if l.Failed() {
			l.Logf("the scheduler said:\n%s", said)
		}
	})
}
