package e2e_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the kernel's unit of processor time in /proc.
const tick = 10 * time.Millisecond

// processorTime is the processor time that each kind of process on this machine has used so far: control planes by
// program and data folder, ours by subcommand.
func processorTime() map[string]time.Duration {
	used := map[string]time.Duration{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return used
	}
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		commandLine, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if err != nil {
			continue
		}
		_, numbers, found := bytes.Cut(stat, []byte(") "))
		fields := strings.Fields(string(numbers))
		name := processName(strings.Split(string(commandLine), "\x00"))
		if !found || name == "" || len(fields) < 13 {
			continue
		}
		for _, field := range fields[11:13] { // user and system time
			if ticks, err := strconv.Atoi(field); err == nil {
				used[name] += time.Duration(ticks) * tick
			}
		}
	}
	return used
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
