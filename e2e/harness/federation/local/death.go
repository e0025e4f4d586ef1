package local

import (
	"fmt"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// Death is the error that a component exited by itself.
type Death struct {
	Cluster   string
	Component federation.Component
	// Status is the exit status or the signal, in words.
	Status string
	// Log is the path of the log, Tail its last lines.
	Log, Tail string
}

func (d *Death) Error() string {
	return fmt.Sprintf("%s of cluster %s died: %s; the last lines of %s:\n%s", d.Component, d.Cluster, d.Status, d.Log, d.Tail)
}
