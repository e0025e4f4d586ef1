package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// finish writes the report and prints the outcome.
func (d *demo) finish() error {
	raw, err := d.report.JSON()
	if err != nil {
		return fmt.Errorf("render the report: %w", err)
	}
	if err := os.MkdirAll(d.options.ReportDir, 0o755); err != nil {
		return fmt.Errorf("--report-dir: %w", err)
	}
	for name, content := range map[string][]byte{
		"report.json": raw, "timeline.svg": []byte(d.report.SVG()),
	} {
		if err := os.WriteFile(filepath.Join(d.options.ReportDir, name), content, 0o644); err != nil {
			return fmt.Errorf("--report-dir: %w", err)
		}
	}
	d.printf("\n%s\nThe first denial: %s\n\n%s\nThe report is in %s: report.json and timeline.svg.",
		d.report.Table(), d.report.Protected.Denial, d.report.Outcome(), d.options.ReportDir)
	return nil
}

// waitForInterrupt leaves everything running until ctx ends. It returns an error if a component dies.
func (d *demo) waitForInterrupt(ctx context.Context) error {
	kubectl, ok := local.FindProgram(d.options.Binaries, "kubectl")
	if !ok {
		kubectl = "kubectl"
	}
	d.printf(`
Everything still runs. In another terminal:

  export KUBECONFIG=%s
  alias k=%s
  k --context %s -n protected get podprotectors
  k --context %s -n protected get pods
  k --context %[4]s -n protected delete pods --all    # refused as soon as the floor is reached

Logs are in %s. Press Ctrl-C to stop.`, d.federation.Kubeconfig(), kubectl, d.core.Name(), d.cells[0].Name, d.dir)
	<-ctx.Done()
	return componentDeath(ctx)
}
