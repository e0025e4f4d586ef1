package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/measure"
)

// cpuTimeByProcess returns the CPU time that each kind of process of the suite has used so far. Processes of control planes are grouped
// by program and cluster, our own processes by subcommand. Other suites may run on this machine.
func cpuTimeByProcess() map[string]time.Duration {
	return measure.CPUTimes("cmdline", func(parent int, commandLine string) string {
		if !strings.Contains(commandLine, loopSuite.Dir()) && parent != os.Getppid() {
			return ""
		}
		return processName(strings.Split(commandLine, "\x00"))
	})
}

func processName(arguments []string) string {
	program := filepath.Base(arguments[0])
	switch program {
	case "breakwater":
		if len(arguments) > 1 {
			return arguments[1]
		}
	case "e2e.test":
		return "clients"
	case "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok":
		for _, argument := range arguments[1:] {
			for _, cluster := range []string{"core", "worker-1", "worker-2"} {
				if strings.Contains(argument, "/"+cluster+"/") {
					return program + "-" + cluster
				}
			}
		}
		return program
	}
	return ""
}
