package local

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// lastRoom is what is left of a full disk beyond a component's log, which shall still be able to tell why it died.
const lastRoom = 1 << 20

// FillDisk makes the disk full for one component, whether it runs or is started later, until FreeDisk. No file of it can
// be written beyond its first megabyte or so: the kernel refuses, as it refuses whoever writes to a full disk, but says
// "file too large". That needs neither privileges nor a disk of its own. CanFillDisks tells where it is possible.
func (c *Cluster) FillDisk(component federation.Component) error {
	return c.affect(component, func(p *process) error {
		room := uint64(lastRoom)
		if log, err := os.Stat(c.layout.log(component)); err == nil {
			room += uint64(log.Size())
		}
		if err := p.limitFiles(room); err != nil {
			return err
		}
		c.room[component] = room
		return nil
	})
}

// FreeDisk makes room again. A component that died of the full disk has to be restarted.
func (c *Cluster) FreeDisk(component federation.Component) error {
	return c.affect(component, func(p *process) error {
		delete(c.room, component)
		return p.limitFiles(unlimited)
	})
}

// limitFiles lets no file of the process grow beyond that many bytes.
func (p *process) limitFiles(bytes uint64) error {
	if !p.running() {
		return nil
	}
	if err := limitFileSize(p.cmd.Process.Pid, bytes); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("limit the size of its files to %d bytes: %w", bytes, err)
	}
	return nil
}
