package local

import (
	"fmt"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// Death is the error that a component exited by itself.
type Death struct {
	Cluster   string
	Component federation.Component
	// How has the exit status or the signal, and the last lines of the log.
	How string
}

func (d *Death) Error() string {
	return fmt.Sprintf("%s of cluster %s died: %s", d.Component, d.Cluster, d.How)
}
