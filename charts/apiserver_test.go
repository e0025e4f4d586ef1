package charts_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// certManagerCRDs installs the CRDs of cert-manager once, in the first test that needs them.
var certManagerCRDs sync.Once

// apiserver returns a client of an API server with the CRDs of Breakwater and cert-manager.
func apiserver(t *testing.T) client.Client {
	t.Helper()
	c := testplane.Client(t)
	certManagerCRDs.Do(func() {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager").Output()
		if err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "deploy/crds/*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("definitions of cert-manager: %q, error %v", files, err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, object := range parse(t, string(raw)) {
				if err := c.Create(t.Context(), object); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, name := range []string{namespace, "clusters", "breakwater-clusters", "argocd", "fleet"} {
			restricted := map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
			if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: restricted}}); err != nil {
				t.Fatal(err)
			}
		}
	})
	return c
}

// applyDryRun applies an object as a dry run with strict field validation.
func applyDryRun(ctx context.Context, c client.Client, object *unstructured.Unstructured) error {
	object = object.DeepCopy()
	return client.WithFieldValidation(c, metav1.FieldValidationStrict).Apply(ctx, client.ApplyConfigurationFromUnstructured(object),
		client.FieldOwner("charts"), client.ForceOwnership, client.DryRunAll)
}

func TestAPIServerAcceptsRenderedObjects(t *testing.T) {
	c := apiserver(t)
	forEachValueSet(t, func(t *testing.T, set string) {
		for _, object := range render(t, "--values", set) {
			if object.GroupVersionKind().Group == monitoringv1.SchemeGroupVersion.Group {
				continue // another test covers them
			}
			testplane.Eventually(t, func() string { // CRDs are served some time after they are created
				err := applyDryRun(t.Context(), c, object)
				if err != nil && !apierrors.IsNotFound(err) {
					t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
				}
				return errorText(err)
			})
		}
	})
	text, err := helm(t, "template", "crds", "breakwater-crds")
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range parse(t, text) {
		if err := applyDryRun(t.Context(), c, object); err != nil {
			t.Errorf("%s: %v", object.GetName(), err)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestAPIServerRejectsUnknownField(t *testing.T) {
	c := apiserver(t)
	objects := render(t, "--values", "breakwater/ci/single.yaml")
	for _, object := range objects {
		if object.GetKind() != "Deployment" {
			continue
		}
		if err := unstructured.SetNestedField(object.Object, "x", "spec", "template", "spec", "nodeNames"); err != nil {
			t.Fatal(err)
		}
		if err := applyDryRun(t.Context(), c, object); err == nil || !strings.Contains(err.Error(), "nodeNames") {
			t.Errorf("error %v, want one that names nodeNames", err)
		}
		return
	}
	t.Error("no Deployment is rendered")
}

func TestThirdPartyObjectsMatchTheirTypes(t *testing.T) {
	forEachValueSet(t, func(t *testing.T, set string) {
		objects := render(t, "--values", set)
		for _, certificate := range objectsOfKind[certmanagerv1.Certificate](t, objects, "Certificate") {
			if certificate.Spec.PrivateKey == nil || certificate.Spec.PrivateKey.Algorithm != certmanagerv1.ECDSAKeyAlgorithm {
				t.Errorf("Certificate %s: key %+v", certificate.Name, certificate.Spec.PrivateKey)
			}
		}
		monitors, rules := objectsOfKind[monitoringv1.ServiceMonitor](t, objects, "ServiceMonitor"), objectsOfKind[monitoringv1.PrometheusRule](t, objects, "PrometheusRule")
		if all := strings.Contains(set, "everything"); all != (len(monitors) == 1) || all != (len(rules) == 1) {
			t.Errorf("%d ServiceMonitors, %d PrometheusRules, want 1 and 1", len(monitors), len(rules))
		}
		podMonitors := slices.DeleteFunc(objectsOfKind[monitoringv1.PodMonitor](t, objects, "PodMonitor"), func(m *monitoringv1.PodMonitor) bool {
			return strings.HasSuffix(m.Name, "-node") // that of node guards has a test of its own
		})
		if want := strings.Contains(set, "single-parts"); want != (len(podMonitors) == 1) {
			t.Errorf("%d PodMonitors, want 1: %v", len(podMonitors), want)
		}
		for _, m := range podMonitors {
			if scraped := m.Spec.PodMetricsEndpoints[0]; scraped.Authorization.Credentials.Name != "scraper" || *scraped.Port != "metrics" {
				t.Errorf("PodMonitor %+v", m.Spec)
			}
		}
		for _, r := range rules {
			if len(r.Spec.Groups) != 2 || len(r.Spec.Groups[0].Rules) < 20 || len(r.Spec.Groups[1].Rules) < 5 {
				t.Errorf("rules %+v", r.Spec)
			}
		}
	})
}
