package gitops_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// layers are the Kustomizations of clusters/flux/rendered, each after the one before.
var layers = []string{"breakwater-crds", "breakwater", "breakwater-cells", "protection"}

// values are what this place needs besides clusters/single/main/values.yaml: an address without a Service that routes. Addresses
// of the loopback interface are spoken to by HTTP/1.1, which real webhooks are not.
const values = `
webhook: {url: "https://%s", scheduling: {enabled: true}}
tls: {ipAddresses: [0.0.0.0]}
`

// render is what a chart renders to, as a team commits it.
func (s *Stage) render(ctx context.Context, chart string) (string, error) {
	arguments := []string{"template", chart, filepath.Join(root, "charts", chart), "--namespace=" + system, "--no-hooks", "--kube-version=1.36.0"}
	if chart == "breakwater" {
		own := s.path("values.yaml")
		address := strings.Replace(s.webhook, "127.0.0.1", "0.0.0.0", 1)
		if err := os.WriteFile(own, fmt.Appendf(nil, values, address), 0o600); err != nil {
			return "", err
		}
		arguments = append(arguments, "--values="+filepath.Join(root, "clusters", "single", "main", "values.yaml"), "--values="+own)
	}
	out, err := output(ctx, nil, "helm", arguments...)
	return string(out), err
}

// split takes the Cells out of what the chart renders, as clusters/flux/rendered wants it.
func split(rendered string) (app, cells string) {
	for document := range strings.SplitSeq(rendered, "\n---\n") {
		if strings.Contains(document, "\nkind: Cell\n") {
			cells += "---\n" + document + "\n"
		} else {
			app += "---\n" + document + "\n"
		}
	}
	return app, cells
}

// fillRepository makes the repository with its first commit.
func (s *Stage) fillRepository(ctx context.Context) error {
	var err error
	if s.repository, err = newRepository(ctx, s.dir); err != nil {
		return err
	}
	crds, err := s.render(ctx, "breakwater-crds")
	if err != nil {
		return err
	}
	app, err := s.render(ctx, "breakwater")
	if err != nil {
		return err
	}
	app, cells := split(app)
	return s.repository.commit(ctx, "Breakwater protects the shop", map[string]string{
		"crds/breakwater-crds.yaml": crds, "breakwater/breakwater.yaml": app, "cells/cells.yaml": cells,
		"protection/web.yaml": web, "protection/web-protector.yaml": webProtector, "protection/cart-protector.yaml": cartProtector, "protection/pool-policy.yaml": poolPolicy,
	})
}

// sync applies clusters/flux/rendered with the address of our repository, and waits until it was cloned.
func (s *Stage) sync(ctx context.Context) error {
	raw, _, err := kustomized(ctx, "flux/rendered")
	if err != nil {
		return err
	}
	objects, err := parse([]byte(strings.ReplaceAll(string(raw), "https://git.example.com/team/cluster", s.repository.url())))
	if err != nil {
		return err
	}
	if err := s.apply(ctx, objects); err != nil {
		return err
	}
	return s.fetch(ctx)
}

// fetch asks the source-controller to look at the repository now, and waits until it hands out the newest commit.
func (s *Stage) fetch(ctx context.Context) error {
	want, err := s.repository.head(ctx)
	if err != nil {
		return err
	}
	source, err := s.read(ctx, gitRepositories, system, "breakwater")
	if err != nil {
		return err
	}
	if err := s.Patch(ctx, source, requestNow(time.Now().Format(time.RFC3339Nano))); err != nil {
		return err
	}
	return await(ctx, "the source-controller to hand out "+want, func() string {
		got, err := s.revision(ctx)
		if err != nil {
			return err.Error()
		}
		if got != want {
			return fmt.Sprintf("it hands out %q", got)
		}
		return ""
	})
}

// requestNow is how one asks a controller of Flux to look at an object.
func requestNow(token string) client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"reconcile.fluxcd.io/requestedAt":%q}}}`, token))
}

// push commits files, and lets Flux know.
func (s *Stage) push(ctx context.Context, subject string, files map[string]string) error {
	if err := s.repository.commit(ctx, subject, files); err != nil {
		return err
	}
	return s.fetch(ctx)
}

// revision is the newest that the source has.
func (s *Stage) revision(ctx context.Context) (string, error) {
	source, err := s.read(ctx, gitRepositories, system, "breakwater")
	if err != nil {
		return "", err
	}
	revision, _, err := unstructured.NestedString(source.Object, "status", "artifact", "revision")
	return revision, err
}

// awaitSync waits until all layers have applied the newest revision and are Ready.
func (s *Stage) awaitSync(ctx context.Context) error {
	want, err := s.revision(ctx)
	if err != nil {
		return err
	}
	for _, layer := range layers {
		err := await(ctx, "Kustomization "+layer, func() string {
			k, err := s.read(ctx, kustomizations, system, layer)
			if err != nil {
				return err.Error()
			}
			got, _, _ := unstructured.NestedString(k.Object, "status", "lastAppliedRevision") // absent until it has been applied
			if ready := condition(k, "Ready"); got != want || ready.Status != metav1.ConditionTrue {
				return fmt.Sprintf("applied %q, want %q; Ready: %s %s: %s; %s", got, want, ready.Status, ready.Reason, ready.Message, s.kubelet.state())
			}
			return ""
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// syncAgain makes Flux apply all layers once more, and returns when it has.
func (s *Stage) syncAgain(ctx context.Context) error {
	for _, layer := range layers {
		token := time.Now().Format(time.RFC3339Nano)
		k, err := s.read(ctx, kustomizations, system, layer)
		if err != nil {
			return err
		}
		if err := s.Patch(ctx, k, requestNow(token)); err != nil {
			return err
		}
		err = await(ctx, "Kustomization "+layer+" to sync again", func() string {
			k, err := s.read(ctx, kustomizations, system, layer)
			if err != nil {
				return err.Error()
			}
			handled, _, _ := unstructured.NestedString(k.Object, "status", "lastHandledReconcileAt") // absent at first
			if ready := condition(k, "Ready"); handled != token || ready.Status != metav1.ConditionTrue {
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
