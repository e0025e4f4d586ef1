package aggregator

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// settle returns the memory of the process when it has stayed the same, to 2 MiB, for half a minute.
func (r *run) settle() float64 {
	r.Helper()
	look := time.NewTicker(time.Second)
	defer look.Stop()
	memory, since := r.memory("VmRSS"), time.Now()
	for time.Since(since) < 30*time.Second {
		select {
		case <-look.C:
		case <-r.ctx.Done():
			r.Fatalf("at %v MiB: %v", memory, context.Cause(r.ctx))
		}
		if now := r.memory("VmRSS"); math.Abs(now-memory) > 2 {
			memory, since = now, time.Now()
		}
	}
	return memory
}

// memory reads a line of the kernel's report on a process.
func (r *run) memory(field string) (mebibytes float64) {
	r.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.pid))
	r.must(err)
	for line := range strings.Lines(string(raw)) {
		if rest, found := strings.CutPrefix(line, field+":"); found {
			kibibytes, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			r.must(err)
			return float64(kibibytes) / 1024
		}
	}
	r.Fatalf("no %s of process %d in:\n%s", field, r.pid, raw)
	return 0
}
