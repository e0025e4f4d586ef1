package charts_test

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
)

// TestChartBringsItsCRDs installs the chart alone, without values, in the cluster after the release was uninstalled.
func TestChartBringsItsCRDs(t *testing.T) {
	single.Claim(t, "one chart without values installs, and never changes or deletes CRDs that exist", func(l *e2e.Fixture) {
		uninstallAll(l)
		older := editChart(t, "crds/breakwater.dev_cells.yaml", "    - breakwater\n", "    - older\n")
		helm(l, "install", "breakwater", older, "--create-namespace", "--wait")
		waitForLocalCell(l)
		helm(l, "upgrade", "breakwater", folder+"breakwater", "--wait")
		wantCategory(l, "an upgrade of breakwater", "older")
		// The command of docs/how-to/upgrade.md, first without a release of the CRDs, then with one.
		for _, claim := range []string{"the first upgrade of the CRDs", "a later upgrade of the CRDs"} {
			helm(l, "upgrade", "--install", "breakwater-crds", folder+"breakwater-crds", "--take-ownership")
			wantCategory(l, claim, "breakwater")
		}
		helm(l, "rollback", "breakwater", "1", "--wait")
		wantCategory(l, "a rollback of breakwater", "breakwater")
		helm(l, "uninstall", "breakwater", "--wait")
		wantCategory(l, "the uninstallation of breakwater", "breakwater")

		// The Cell local stays, too. A Cell of another name has the same pods.
		other := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
		l.Must(l.Core.Create(l.Context(), other))
		out, err := installed.Helm(l.Context(), "install", "breakwater", folder+"breakwater")
		if err == nil || !strings.Contains(out, "this cluster is the cell other already") {
			l.Fatalf("helm install beside the Cell other: error %v, want one that names it\n%s", err, out)
		}
		l.Must(l.Core.Delete(l.Context(), other))
		helm(l, "install", "breakwater", folder+"breakwater", "--wait")
		waitForLocalCell(l)
		wantCategory(l, "an installation beside breakwater-crds", "breakwater")
		// Helm 4 applies the CRDs of a chart that it installs over those that exist.
		lacking := editChart(t, "crds/breakwater.dev_cells.yaml", "\n              pods:\n", "\n              podsBefore:\n")
		out, err = installed.Helm(l.Context(), "install", "second", lacking)
		if err == nil || !strings.Contains(out, "lacks fields of the one in the cluster") {
			l.Errorf("helm install of a chart whose CRDs lack a field: error %v, want a denial\n%s", err, out)
		}
		helm(l, "uninstall", "breakwater-crds")
		wantCategory(l, "the uninstallation of breakwater-crds", "breakwater")
	})
}

// helm runs Helm, which must succeed.
func helm(l *e2e.Fixture, arguments ...string) {
	l.Helper()
	if out, err := installed.Helm(l.Context(), arguments...); err != nil {
		l.Fatalf("helm %s: %v\n%s\n%v", strings.Join(arguments, " "), err, out, installed.Problems())
	}
}

// waitForLocalCell waits until the Cell local is ready and guarded.
func waitForLocalCell(l *e2e.Fixture) {
	l.Helper()
	for _, condition := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionGuarded} {
		e2e.RunTool(l.Context(), l, "kubectl", installed.Cluster.Kubeconfig(), "wait", "cell", "local", "--for=condition="+condition, "--timeout=90s")
	}
}

// wantCategory checks that the CRD of Cells exists and has this category, by which the test tells versions apart.
func wantCategory(l *e2e.Fixture, after, want string) {
	l.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	l.Must(l.Core.Get(l.Context(), client.ObjectKey{Name: "cells." + v1alpha1.GroupVersion.Group}, object))
	l.Must(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, definition))
	if got := strings.Join(definition.Spec.Names.Categories, " "); got != want || definition.DeletionTimestamp != nil {
		l.Errorf("after %s the CRD of Cells has the categories %q, deleted %v, want %q", after, got, definition.DeletionTimestamp, want)
	}
	if definition.Labels["app.kubernetes.io/part-of"] != "breakwater" {
		l.Errorf("after %s the CRD of Cells has the labels %v, by which docs/how-to/upgrade.md deletes it", after, definition.Labels)
	}
}
