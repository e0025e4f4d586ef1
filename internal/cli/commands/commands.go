// Package commands contains the commands that breakwater and kubectl breakwater share. Each program provides a Cluster.
package commands

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/core/printable"
)

// Cluster is the target cluster of a command, from flags or the user's kubeconfig.
type Cluster interface {
	// Config returns the client configuration. component is part of the user agent.
	Config(ctx context.Context, component string) (*rest.Config, error)
	// NamespaceFlag returns the namespace flag; empty if not set.
	NamespaceFlag() string
	// Namespace returns the namespace flag, or else the namespace of the kubeconfig's context.
	Namespace() (string, error)
	// IsSelected reports whether a flag selects the cluster.
	IsSelected() bool
}

// writeTable writes rows, the first of which has the headings, with printable texts.
func writeTable(out io.Writer, rows [][]string) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range printable.Value(rows) {
		if _, err := fmt.Fprintln(table, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return table.Flush()
}
