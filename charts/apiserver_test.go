package charts_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
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

// definitions of cert-manager are in the cluster once one test has asked for them.
var definitions sync.Once

// apiserver is a client of one that knows the kinds of Breakwater and of cert-manager.
func apiserver(t *testing.T) client.Client {
	t.Helper()
	c := testplane.Client(t)
	definitions.Do(func() {
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
		for _, name := range []string{namespace, "clusters"} {
			restricted := map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
			if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: restricted}}); err != nil {
				t.Fatal(err)
			}
		}
	})
	return c
}

// accept asks the apiserver whether it would take an object, and takes no field that it does not know.
func accept(ctx context.Context, c client.Client, object *unstructured.Unstructured) error {
	object = object.DeepCopy()
	return client.WithFieldValidation(c, metav1.FieldValidationStrict).Apply(ctx, client.ApplyConfigurationFromUnstructured(object),
		client.FieldOwner("charts"), client.ForceOwnership, client.DryRunAll)
}

func TestAnAPIServerAcceptsWhatIsRendered(t *testing.T) {
	c := apiserver(t)
	forEachSet(t, func(t *testing.T, set string) {
		for _, object := range render(t, "--values", set) {
			if object.GroupVersionKind().Group == monitoringv1.SchemeGroupVersion.Group {
				continue // the next test reads them
			}
			testplane.Eventually(t, func() string { // definitions are served some time after they are made
				err := accept(t.Context(), c, object)
				if err != nil && !apierrors.IsNotFound(err) {
					t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
				}
				return word(err)
			})
		}
	})
	text, err := helm(t, "template", "crds", "breakwater-crds")
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range parse(t, text) {
		if err := accept(t.Context(), c, object); err != nil {
			t.Errorf("%s: %v", object.GetName(), err)
		}
	}
}

func word(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestTheApiserverWouldRefuseAMistake(t *testing.T) {
	c := apiserver(t)
	objects := render(t, "--values", "breakwater/ci/single.yaml")
	for _, object := range objects {
		if object.GetKind() != "Deployment" {
			continue
		}
		if err := unstructured.SetNestedField(object.Object, "x", "spec", "template", "spec", "nodeNames"); err != nil {
			t.Fatal(err)
		}
		if err := accept(t.Context(), c, object); err == nil || !strings.Contains(err.Error(), "nodeNames") {
			t.Errorf("error %v, want one about nodeNames", err)
		}
		return
	}
	t.Error("there is no Deployment")
}

func TestObjectsOfOthersAreWhatTheirTypesSay(t *testing.T) {
	forEachSet(t, func(t *testing.T, set string) {
		objects := render(t, "--values", set)
		for _, certificate := range typed[certmanagerv1.Certificate](t, objects, "Certificate") {
			if certificate.Spec.PrivateKey == nil || certificate.Spec.PrivateKey.Algorithm != certmanagerv1.ECDSAKeyAlgorithm {
				t.Errorf("Certificate %s: key %+v", certificate.Name, certificate.Spec.PrivateKey)
			}
		}
		monitors, rules := typed[monitoringv1.ServiceMonitor](t, objects, "ServiceMonitor"), typed[monitoringv1.PrometheusRule](t, objects, "PrometheusRule")
		if all := strings.Contains(set, "everything"); all != (len(monitors) == 1) || all != (len(rules) == 1) {
			t.Errorf("%d monitors, %d rules", len(monitors), len(rules))
		}
		for _, r := range rules {
			if len(r.Spec.Groups) != 2 || len(r.Spec.Groups[0].Rules) < 20 || len(r.Spec.Groups[1].Rules) < 5 {
				t.Errorf("rules %+v", r.Spec)
			}
		}
	})
}
