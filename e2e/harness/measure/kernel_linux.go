package measure

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the kernel's unit of CPU time in /proc.
const tick = 10 * time.Millisecond

// Memory reads a line of /proc/PID/status: VmRSS is the current memory, VmHWM the peak.
func (p *Process) Memory(field string) (mebibytes float64) {
	p.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	p.must(err)
	for line := range strings.Lines(string(raw)) {
		if rest, found := strings.CutPrefix(line, field+":"); found {
			kibibytes, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			p.must(err)
			return float64(kibibytes) / 1024
		}
	}
	p.Fatalf("no %s of process %d in:\n%s", field, p.pid, raw)
	return 0
}

// ResetPeakMemory resets the peak memory of the process.
func (p *Process) ResetPeakMemory() {
	p.Helper()
	p.must(os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.pid), []byte("5"), 0))
}

// StableMemory returns the memory of the process once it has changed by at most 2 MiB for that time.
func (p *Process) StableMemory(stableFor time.Duration) (mebibytes float64) {
	p.Helper()
	memory, since := p.Memory("VmRSS"), time.Now()
	p.Await(time.Second, func() bool {
		if now := p.Memory("VmRSS"); math.Abs(now-memory) > 2 {
			memory, since = now, time.Now()
		}
		return time.Since(since) >= stableFor
	}, func() string { return fmt.Sprintf("memory did not become stable, at %v MiB", memory) })
	return memory
}

// CPUTime returns the CPU time that the process has used so far.
func (p *Process) CPUTime() time.Duration {
	p.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	p.must(err)
	_, used := parseStat(stat)
	return used
}

// ChildCPUTimes returns the CPU time that the child processes of this process have used so far, by program name. These are the
// programs of the test's own control plane, and no others of the machine.
func ChildCPUTimes() map[string]time.Duration {
	return CPUTimes("comm", func(parent int, name string) string {
		if parent != os.Getpid() {
			return ""
		}
		return strings.TrimSpace(name)
	})
}

// APIServerCPU returns the CPU time that the API servers of the test's own control planes have used so far. A scrape of their metrics would add as much
// as a dozen writes.
func APIServerCPU() time.Duration { return ChildCPUTimes()["kube-apiserver"] }

// CPUTimes returns the CPU time that all processes have used so far, summed by the result of call. call gets a process's parent and
// the content of its file in /proc; "" leaves the process out.
func CPUTimes(file string, call func(parent int, content string) string) map[string]time.Duration {
	used := map[string]time.Duration{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return used
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		content, err := os.ReadFile(filepath.Join(filepath.Dir(path), file))
		if err != nil {
			continue
		}
		parent, spent := parseStat(stat)
		if name := call(parent, string(content)); name != "" {
			used[name] += spent
		}
	}
	return used
}

// parseStat parses a process's parent and its user and system time.
func parseStat(stat []byte) (parent int, used time.Duration) {
	_, rest, found := bytes.Cut(stat, []byte(") "))
	fields := strings.Fields(string(rest))
	if !found || len(fields) < 13 {
		return 0, 0
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0, 0
	}
	for _, field := range fields[11:13] {
		if ticks, err := strconv.Atoi(field); err == nil {
			used += time.Duration(ticks) * tick
		}
	}
	return parent, used
}
