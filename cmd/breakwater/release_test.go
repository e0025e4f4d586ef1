package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// runRelease runs the command for a namespace.
func runRelease(t *testing.T, namespace string, arguments ...string) (string, error) {
	t.Helper()
	return commandOutput(t, append([]string{"release", "--kubeconfig", writeKubeconfig(t, testplane.Config(t)), "--namespace", namespace}, arguments...)...)
}

// heldObjects creates a deleted and held protector, a held Deployment, and a Deployment with a finalizer of another controller.
func heldObjects(t *testing.T, c client.Client, namespace string) (*v1alpha1.PodProtector, *appsv1.Deployment, *appsv1.Deployment) {
	t.Helper()
	protector := &v1alpha1.PodProtector{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "deployment-web", Finalizers: []string{v1alpha1.FinalizerProtector}},
		Spec:       v1alpha1.PodProtectorSpec{Selector: &v1alpha1.PodSelector{}, MinAvailable: v1alpha1.Pods(1)},
	}
	deployment := func(name string, finalizers ...string) *appsv1.Deployment {
		app := map[string]string{"app": name}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: finalizers}}
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: app}
		d.Spec.Template.Labels = app
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "web"}}
		return d
	}
	ours, theirs := deployment("web", "example.com/theirs", v1alpha1.FinalizerSource), deployment("other", "example.com/theirs")
	for _, object := range []client.Object{protector, ours, theirs} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Delete(t.Context(), protector); err != nil {
		t.Fatal(err)
	}
	return protector, ours, theirs
}

func TestReleaseListsAndRemovesFinalizers(t *testing.T) {
	namespace := testplane.Namespace(t)
	c, err := client.New(testplane.Config(t), client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	protector, ours, _ := heldObjects(t, c, namespace)

	out, err := runRelease(t, namespace)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"deployment-web", "breakwater.dev/protector", "deleted 2", "breakwater.dev/generator", "in use", "Nothing was changed"} {
		if !strings.Contains(out, want) {
			t.Errorf("output does not contain %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "example.com") || strings.Contains(out, "other") {
		t.Errorf("output contains foreign finalizers:\n%s", out)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(protector), protector); err != nil {
		t.Fatalf("the dry run changed the object: %v", err)
	}

	if out, err = runRelease(t, namespace, "--deleted", "--yes"); err != nil || !strings.Contains(out, "released PodProtector "+namespace+"/deployment-web") {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(protector), protector); !apierrors.IsNotFound(err) {
		t.Errorf("get of the protector: %v, want it deleted", err)
	}
	if recorded, err := clusters.WasReleased(t.Context(), c, protector); err != nil || !recorded {
		t.Errorf("WasReleased() = %v, %v, want true: components that missed its end would take it for vanished", recorded, err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(ours), ours); err != nil || len(ours.Finalizers) != 2 {
		t.Errorf("error %v, finalizers %v of an object that was not deleted, want them unchanged", err, ours.Finalizers)
	}

	if out, err = runRelease(t, namespace, "--yes", "deployment/web"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(ours), ours); err != nil || !slices.Equal(ours.Finalizers, []string{"example.com/theirs"}) {
		t.Errorf("error %v, finalizers %v, want only foreign ones", err, ours.Finalizers)
	}
	if out, err = runRelease(t, namespace); err != nil || out != "No object has finalizers of Breakwater.\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

// createConfiguration creates a webhook configuration that no request reaches.
func createConfiguration(t *testing.T, c client.Client, name string, change func(*admissionregistrationv1.ValidatingWebhookConfiguration)) {
	t.Helper()
	none, ignore := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Ignore
	hook := admissionregistrationv1.ValidatingWebhook{
		Name: "pods.breakwater.dev", SideEffects: &none, FailurePolicy: &ignore, AdmissionReviewVersions: []string{"v1"},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"example.com/no-namespace": "has-it"}},
		ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/cells/left-1/validate")},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
		}},
	}
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []admissionregistrationv1.ValidatingWebhook{hook},
	}
	change(configuration)
	if err := c.Create(t.Context(), configuration); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.Background(), configuration) })
}

// Such a configuration has no label and no name by which it could be found, and denies all removals once no webhook answers.
func TestReleaseDeletesConfigurationsThatOutlivedTheWebhook(t *testing.T) {
	namespace := testplane.Namespace(t)
	c, err := client.New(testplane.Config(t), client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	type configuration = admissionregistrationv1.ValidatingWebhookConfiguration
	calls := func(service string) func(*configuration) {
		return func(v *configuration) {
			v.Webhooks[0].ClientConfig = admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
				Namespace: namespace, Name: service, Path: ptr.To("/cells/left-1/validate"),
			}}
		}
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "answers"}}
	service.Spec.Ports = []corev1.ServicePort{{Port: 443}}
	if err := c.Create(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*configuration){
		"left-url":     func(*configuration) {},
		"left-service": calls("deleted"),
		"kept-service": calls("answers"),
		"kept-release": func(v *configuration) { v.Annotations = map[string]string{"meta.helm.sh/release-name": "other"} },
		"kept-cell": func(v *configuration) {
			v.Webhooks[0].ClientConfig.URL = ptr.To("https://127.0.0.1:1/cells/other-1/validate")
		},
		"kept-policies": func(v *configuration) { v.Webhooks[0].ClientConfig.URL = ptr.To("https://127.0.0.1:1/validate") },
	} {
		createConfiguration(t, c, name, change)
	}
	remaining := func() (names []string) {
		var all admissionregistrationv1.ValidatingWebhookConfigurationList
		if err := c.List(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		for i := range all.Items {
			if name := all.Items[i].Name; strings.HasPrefix(name, "left-") || strings.HasPrefix(name, "kept-") {
				names = append(names, name)
			}
		}
		return names
	}
	kubeconfig := writeKubeconfig(t, testplane.Config(t))

	before := remaining()
	out, err := commandOutput(t, "release", "--kubeconfig", kubeconfig, "--webhooks-of", "left-1")
	if after := remaining(); err != nil || !slices.Equal(before, after) || strings.Count(out, "would delete") != 2 {
		t.Errorf("error %v, configurations %q, want %q, and two that it would delete:\n%s", err, after, before, out)
	}
	out, err = commandOutput(t, "release", "--kubeconfig", kubeconfig, "--namespace", namespace, "--webhooks-of", "left-1,left-2", "--yes")
	want := []string{"kept-cell", "kept-policies", "kept-release", "kept-service"}
	if got := remaining(); err != nil || !slices.Equal(got, want) || !strings.Contains(out, "deleted ValidatingWebhookConfiguration left-url") {
		t.Errorf("error %v, configurations %q, want %q:\n%s", err, got, want, out)
	}
	out, err = commandOutput(t, "release", "--kubeconfig", kubeconfig, "--webhooks-of", "left-1", "--yes")
	if err != nil || out != "No webhook configuration has outlived Breakwater.\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestReleaseRejectsInvalidArguments(t *testing.T) {
	for claim, c := range map[string]struct {
		arguments []string
		want      string
	}{
		"no namespace":                  {[]string{"release"}, "either --namespace or --all-namespaces"},
		"both":                          {[]string{"release", "-n", "a", "-A"}, "either --namespace or --all-namespaces"},
		"pending decreases of webhooks": {[]string{"release", "--pending", "--webhooks-of", "a"}, "either --pending or --webhooks-of"},
		"an object without a namespace": {[]string{"release", "--webhooks-of", "a", "PodProtector/web"}, "and a namespace"},
		"a name without a kind":         {[]string{"release", "-A", "web"}, "want KIND/NAME"},
		"a kind without a version": {[]string{"release", "-A", "--kind", "Rollout", "--kubeconfig", writeKubeconfig(t, testplane.Config(t))},
			"want group/version/Kind"},
	} {
		t.Run(claim, func(t *testing.T) {
			wantError(t, c.want, c.arguments...)
		})
	}
}
