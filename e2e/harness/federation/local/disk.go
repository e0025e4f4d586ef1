package local

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// reservedForLog is the space that a full disk leaves for the component's log, so that the log can record why it died.
const reservedForLog = 1 << 20

// FillDisk makes the disk full for one component, whether it runs or is started later, until FreeDisk. No file of it can
// be written beyond its first megabyte or so: the kernel refuses the write, as on a full disk, but says
// "file too large". That needs neither privileges nor a disk of its own. CanFillDisks reports where it is possible.
func (c *Cluster) FillDisk(component federation.Component) error {
	return c.components.apply(component, func(p *process) error {
		room := uint64(reservedForLog)
		if log, err := os.Stat(c.layout.log(component)); err == nil {
			room += uint64(log.Size())
		}
		if err := p.limitFiles(room); err != nil {
			return err
		}
		c.components.fileLimits[component] = room
		return nil
	})
}

// FreeDisk removes the limit. The caller restarts a component that exited because of the full disk.
func (c *Cluster) FreeDisk(component federation.Component) error {
	return c.components.apply(component, func(p *process) error {
		delete(c.components.fileLimits, component)
		return p.limitFiles(unlimited)
	})
}

// limitFiles limits the size of each file of the process, in bytes.
func (p *process) limitFiles(bytes uint64) error {
	if !p.running() {
		return nil
	}
	if err := limitFileSize(p.cmd.Process.Pid, bytes); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("limit the size of its files to %d bytes: %w", bytes, err)
	}
	return nil
}
