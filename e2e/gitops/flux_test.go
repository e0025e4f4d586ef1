package gitops_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/gitops"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kustomizations are the Kustomizations of clusters/rendered, in the order of their dependencies.
var kustomizations = []string{"breakwater-crds", "breakwater", "breakwater-cells", "protection"}

// source is the GitRepository that flux bootstrap creates, from which all Kustomizations sync.
var source = client.ObjectKey{Namespace: "flux-system", Name: "flux-system"}

// extraValues replace the other cells in clusters/dev/main/values.yaml, because there is one cluster. They have an address, because there is
// no Service that routes, and pods that become ready when their process is.
const extraValues = `
webhook: {url: "https://%s", drain: 1s, scheduling: {enabled: true}}
tls: {mode: cert-manager, ipAddresses: [%s]}
podAnnotations: {%s: "false", %s: held}
`

// values returns the values of the cluster.
func (s *Fixture) values() (string, error) {
	raw, err := os.ReadFile(filepath.Join(root, "clusters", "dev", "main", "values.yaml"))
	own, others, ok := strings.Cut(string(raw), "remoteCells:\n- name: worker-1\n")
	if err == nil && (!ok || others != "") {
		err = errors.New("clusters/dev/main/values.yaml does not end with the remote cells")
	}
	own = strings.Replace(own, "tls: {mode: cert-manager}\n", "", 1) // the other values set it
	return own + fmt.Sprintf(extraValues, s.webhooks.ExternalAddress(), install.ExternalHost, federation.ReadyAnnotation, federation.CompleteAnnotation), err
}

// renderChart returns the rendered manifests of a chart, as a team commits them.
func (s *Fixture) renderChart(ctx context.Context, chart string) (string, error) {
	arguments := []string{"template", chart, filepath.Join(root, "charts", chart), "--namespace=" + systemNamespace, "--no-hooks", "--kube-version=1.36.0"}
	if chart == "breakwater" {
		values, err := s.values()
		if err != nil {
			return "", err
		}
		file := s.Path("values.yaml")
		if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
			return "", err
		}
		arguments = append(arguments, "--values="+file)
	}
	out, err := gitops.Output(ctx, nil, "helm", arguments...)
	return string(out), err
}

// splitCells separates the Cells from the other rendered manifests, as clusters/rendered expects.
func splitCells(rendered string) (app, cells string) {
	for document := range strings.SplitSeq(rendered, "\n---\n") {
		if strings.Contains(document, "\nkind: Cell\n") {
			cells += "---\n" + document + "\n"
		} else {
			app += "---\n" + document + "\n"
		}
	}
	return app, cells
}

// fillRepository creates the repository with its first commit.
func (s *Fixture) fillRepository(ctx context.Context) error {
	var err error
	if s.repository, err = gitops.NewRepository(ctx, s.Path()); err != nil {
		return err
	}
	crds, err := s.renderChart(ctx, "breakwater-crds")
	if err != nil {
		return err
	}
	app, err := s.renderChart(ctx, "breakwater")
	if err != nil {
		return err
	}
	app, cells := splitCells(app)
	workload, err := gitops.Parse([]byte(web))
	if err != nil {
		return err
	}
	if err := s.Apply(ctx, workload); err != nil {
		return err
	}
	return s.repository.Commit(ctx, "Breakwater protects the shop", map[string]string{
		"crds/breakwater-crds.yaml": crds, "breakwater/breakwater.yaml": app, "cells/cells.yaml": cells,
		"protection/web-protector.yaml": webProtector, "protection/cart-protector.yaml": cartProtector, "protection/pool-policy.yaml": poolPolicy,
	})
}

// applyRendered applies clusters/rendered and the GitRepository of flux bootstrap, and waits until Flux has cloned it.
func (s *Fixture) applyRendered(ctx context.Context) error {
	_, objects, err := buildKustomization(ctx, "rendered")
	if err != nil {
		return err
	}
	bootstrap, err := gitops.Parse(fmt.Appendf(nil, `
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {namespace: %s, name: %s}
spec: {interval: 1m, url: %q, ref: {branch: main}}
`, source.Namespace, source.Name, s.repository.URL()))
	if err != nil {
		return err
	}
	if err := s.Apply(ctx, append(bootstrap, objects...)); err != nil {
		return err
	}
	return s.fetchCommit(ctx)
}

// fetchCommit makes the source-controller fetch the newest commit now.
func (s *Fixture) fetchCommit(ctx context.Context) error {
	return s.FetchNewestCommit(ctx, source, s.repository)
}

// pushCommit commits files and makes Flux fetch the commit.
func (s *Fixture) pushCommit(ctx context.Context, subject string, files map[string]string) error {
	if err := s.repository.Commit(ctx, subject, files); err != nil {
		return err
	}
	return s.fetchCommit(ctx)
}

// revision returns the newest revision of the source.
func (s *Fixture) revision(ctx context.Context) (string, error) { return s.Revision(ctx, source) }

// waitForSync waits until all Kustomizations have applied the newest revision and are Ready.
func (s *Fixture) waitForSync(ctx context.Context) error {
	want, err := s.revision(ctx)
	if err != nil {
		return err
	}
	for _, layer := range kustomizations {
		if err := s.WaitForApplied(ctx, client.ObjectKey{Namespace: systemNamespace, Name: layer}, want); err != nil {
			return errors.Join(err, s.kubelet.Problems())
		}
	}
	return nil
}

// syncAgain makes Flux apply all Kustomizations again, and waits until it has applied them.
func (s *Fixture) syncAgain(ctx context.Context) error {
	for _, layer := range kustomizations {
		token := time.Now().Format(time.RFC3339Nano)
		k, err := s.Kustomization(ctx, systemNamespace, layer)
		if err != nil {
			return err
		}
		if err := s.Patch(ctx, k, gitops.ReconcileNowPatch(token)); err != nil {
			return err
		}
		err = gitops.WaitUntil(ctx, "Kustomization "+layer+" to sync again", func() string {
			k, err := s.Kustomization(ctx, systemNamespace, layer)
			if err != nil {
				return err.Error()
			}
			handled, _, _ := unstructured.NestedString(k.Object, "status", "lastHandledReconcileAt") // absent at first
			if ready := gitops.Condition(k, "Ready"); handled != token || ready.Status != metav1.ConditionTrue {
				return fmt.Sprintf("handled %q, want %q; Ready: %+v", handled, token, ready)
			}
			return ""
		})
		if err != nil {
			return err
		}
	}
	return nil
}
