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

// kustomizations are the Kustomizations of clusters/flux/rendered, in the order of their dependencies.
var kustomizations = []string{"breakwater-crds", "breakwater", "breakwater-cells", "protection"}

// source is the GitRepository of clusters/flux/rendered.
var source = client.ObjectKey{Namespace: systemNamespace, Name: "breakwater"}

// extraValues are the values that this environment needs besides clusters/single/main/values.yaml: an address, because there is no Service
// that routes, and pods that become ready when their process is.
const extraValues = `
webhook: {url: "https://%s", drain: 1s, scheduling: {enabled: true}}
tls: {ipAddresses: [%s]}
podAnnotations: {%s: "false", %s: held}
`

// renderChart returns the rendered manifests of a chart, as a team commits them.
func (s *Fixture) renderChart(ctx context.Context, chart string) (string, error) {
	arguments := []string{"template", chart, filepath.Join(root, "charts", chart), "--namespace=" + systemNamespace, "--no-hooks", "--kube-version=1.36.0"}
	if chart == "breakwater" {
		own := s.Path("values.yaml")
		values := fmt.Appendf(nil, extraValues, s.webhooks.ExternalAddress(), install.ExternalHost, federation.ReadyAnnotation, federation.CompleteAnnotation)
		if err := os.WriteFile(own, values, 0o600); err != nil {
			return "", err
		}
		arguments = append(arguments, "--values="+filepath.Join(root, "clusters", "single", "main", "values.yaml"), "--values="+own)
	}
	out, err := gitops.Output(ctx, nil, "helm", arguments...)
	return string(out), err
}

// splitCells separates the Cells from the other rendered manifests, as clusters/flux/rendered expects.
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
	return s.repository.Commit(ctx, "Breakwater protects the shop", map[string]string{
		"crds/breakwater-crds.yaml": crds, "breakwater/breakwater.yaml": app, "cells/cells.yaml": cells,
		"protection/web.yaml": web, "protection/web-protector.yaml": webProtector, "protection/cart-protector.yaml": cartProtector, "protection/pool-policy.yaml": poolPolicy,
	})
}

// applyRendered applies clusters/flux/rendered with the URL of the fixture's repository, and waits until Flux has cloned it.
func (s *Fixture) applyRendered(ctx context.Context) error {
	raw, _, err := buildKustomization(ctx, "flux/rendered")
	if err != nil {
		return err
	}
	objects, err := gitops.Parse([]byte(strings.ReplaceAll(string(raw), "https://git.example.com/team/cluster", s.repository.URL())))
	if err != nil {
		return err
	}
	if err := s.Apply(ctx, objects); err != nil {
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
