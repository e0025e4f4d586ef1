package terraform

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/binaries"
)

// Cost is what a command of the program used.
type Cost struct {
	// Total is the CPU time of all processes, Provider that of the provider's.
	Total, Provider time.Duration
	// PeakMiB is the memory of the largest process of the provider, in MiB.
	PeakMiB float64
}

// NewAccounted is New for commands whose cost is measured: the provider runs below the program accounted.
func NewAccounted(t testing.TB, program, configuration string) *Dir {
	t.Helper()
	const name = "terraform-provider-breakwater"
	d, wrapper := New(t, program, configuration), t.TempDir()
	if err := binaries.Build(context.Background(), filepath.Join(wrapper, name), binaries.Accounted); err != nil {
		t.Fatal(err)
	}
	d.Write("terraform.rc", strings.ReplaceAll(d.Read("terraform.rc"), Provider(t), wrapper))
	d.Variables = []string{"ACCOUNTED_PROVIDER=" + filepath.Join(Provider(t), name), "ACCOUNTED_FILE=" + filepath.Join(d.Path, accountedFile)}
	return d
}

const accountedFile = "accounted"

// Cost runs a command of the program in a directory of NewAccounted, and returns its cost. It fails the test if the command fails.
func (d *Dir) Cost(arguments ...string) Cost {
	d.Helper()
	d.Write(accountedFile, "")
	command := d.command(arguments...)
	if out, err := command.CombinedOutput(); err != nil {
		d.Fatalf("%s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
	used := Cost{Total: command.ProcessState.UserTime() + command.ProcessState.SystemTime()}
	for line := range strings.Lines(d.Read(accountedFile)) {
		var milliseconds, kibibytes int64
		if _, err := fmt.Sscan(line, &milliseconds, &kibibytes); err != nil {
			d.Fatalf("cost of a provider process %q: %v", line, err)
		}
		used.Provider += time.Duration(milliseconds) * time.Millisecond
		used.PeakMiB = max(used.PeakMiB, float64(kibibytes)/1024)
	}
	d.Logf("%s: %+v, largest process %d MiB", strings.Join(arguments, " "), used, command.ProcessState.SysUsage().(*syscall.Rusage).Maxrss/1024)
	return used
}
