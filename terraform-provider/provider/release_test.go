package provider_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfversion"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

const foreignFinalizer = "example.com/theirs"

// heldProtector creates a protector with finalizers. If deleted is true, it deletes the protector, which the finalizers then
// hold.
func heldProtector(t *testing.T, namespace, name string, deleted bool, finalizers ...string) *v1alpha1.PodProtector {
	t.Helper()
	p := theirProtector(t, namespace, name, func(p *v1alpha1.PodProtector) { p.Finalizers = finalizers })
	if deleted {
		if err := testplane.Client(t).Delete(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// finalizersOf returns the current finalizers of an object, and whether the object was deleted.
func finalizersOf(t *testing.T, object client.Object) (left []string, gone bool) {
	t.Helper()
	err := testplane.Client(t).Get(t.Context(), client.ObjectKeyFromObject(object), object)
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return object.GetFinalizers(), err != nil
}

func TestReleaseRemovesFinalizersOfOneObject(t *testing.T) {
	namespace := testplane.Namespace(t)
	s := newProtocolClientFor(t, testplane.Kubeconfig(t))
	of := func(name string) values {
		return values{"namespace": stringArgument(namespace), "name": stringArgument(name)}
	}
	for name, c := range map[string]struct {
		finalizers []string
		deleted    bool
		left       []string
		gone       bool
		tells      string
	}{
		"deleted":                    {[]string{v1alpha1.FinalizerProtector, v1alpha1.FinalizerHold}, true, nil, true, "Removed from .* breakwater.dev/protector, breakwater.dev/hold .* is gone"},
		"deleted-and-held-by-others": {[]string{foreignFinalizer, v1alpha1.FinalizerProtector}, true, []string{foreignFinalizer}, false, "is deleted, and still held by example.com/theirs"},
		"in-use":                     {[]string{v1alpha1.FinalizerProtector, foreignFinalizer}, false, []string{foreignFinalizer}, false, "was not deleted, and stays"},
		"not-held":                   {[]string{foreignFinalizer}, false, []string{foreignFinalizer}, false, "No finalizer of Breakwater holds PodProtector"},
	} {
		t.Run(name, func(t *testing.T) {
			p := heldProtector(t, namespace, name, c.deleted, c.finalizers...)
			told, complaint := s.invoke("breakwater_release", of(name))
			if complaint != "" || !matchText(c.tells).MatchString(told) {
				t.Errorf("action reported %q, errors %q", told, complaint)
			}
			if left, gone := finalizersOf(t, p); gone != c.gone || !gone && !slices.Equal(left, c.left) {
				t.Errorf("finalizers %v (deleted: %t)", left, gone)
			}
		})
	}
	if told, complaint := s.invoke("breakwater_release", of("nothing")); told != "" || !matchText("WARNING: There is no such PodProtector: There is no PodProtector "+namespace+"/nothing").MatchString(complaint) {
		t.Errorf("action without an object reported %q, errors %q", told, complaint)
	}
}

func TestReleaseOfAnyKind(t *testing.T) {
	namespace := testplane.Namespace(t)
	s, c := newProtocolClientFor(t, testplane.Kubeconfig(t)), testplane.Client(t)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Finalizers: []string{v1alpha1.FinalizerSource}}}
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	deployment.Spec.Template.Labels = map[string]string{"app": "web"}
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "web"}}
	wide := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: namespace, Finalizers: []string{v1alpha1.FinalizerCell}}}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Finalizers: []string{v1alpha1.FinalizerSource}}}
	for _, object := range []client.Object{deployment, wide, config} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Delete(context.Background(), object) })
	}
	here := stringArgument(namespace)
	for object, given := range map[client.Object]values{
		deployment: {"kind": stringArgument("deployment"), "namespace": here, "name": stringArgument("web")},
		wide:       {"kind": stringArgument("Cell"), "name": here},
		config:     {"kind": stringArgument("ConfigMap"), "api_version": stringArgument("v1"), "namespace": here, "name": stringArgument("web")},
	} {
		if complaint := s.validate("breakwater_release", given); complaint != "" {
			t.Error(complaint)
		}
		if _, complaint := s.invoke("breakwater_release", given); complaint != "" {
			t.Error(complaint)
		}
		if left, _ := finalizersOf(t, object); len(left) > 0 {
			t.Errorf("%T still has %v", object, left)
		}
	}
	name := stringArgument("web")
	for want, given := range map[string]values{
		"is not a known kind: set its api_version": {"kind": stringArgument("Rollout"), "namespace": here, "name": name},
		"A PodProtector has a namespace":           {"name": name},
		"A Cell has no namespace":                  {"kind": stringArgument("Cell"), "namespace": here, "name": name},
		"must consist of lower-case letters":       {"namespace": here, "name": stringArgument("Web")},
	} {
		if complaint := s.validate("breakwater_release", given); !strings.Contains(complaint, want) {
			t.Errorf("%v: error %q", given, complaint)
		}
	}
	for want, given := range map[string]values{
		"the cluster does not have the kind Rollout of argoproj.io/v1alpha1": {"kind": stringArgument("Rollout"), "api_version": stringArgument("argoproj.io/v1alpha1"), "namespace": here, "name": name},
		"a ConfigMap is namespaced": {"kind": stringArgument("ConfigMap"), "api_version": stringArgument("v1"), "name": name},
	} {
		if _, complaint := s.invoke("breakwater_release", given); !strings.Contains(strings.ToLower(complaint), strings.ToLower(want)) {
			t.Errorf("%v: error %q", given, complaint)
		}
	}
}

func TestReleasePermissions(t *testing.T) {
	namespace := testplane.Namespace(t)
	p := heldProtector(t, namespace, "web", true, v1alpha1.FinalizerProtector)
	given := values{"namespace": stringArgument(namespace), "name": stringArgument("web")}
	read := rbacv1.PolicyRule{APIGroups: []string{"breakwater.dev"}, Resources: []string{"podprotectors"}, Verbs: []string{"get"}}
	reader := testplane.AsServiceAccount(t, testplane.Config(t), namespace, "reader", clusterRole(t, namespace+"-reader", read))
	_, complaint := newProtocolClientFor(t, kubeconfigOf(t, reader)).invoke("breakwater_release", given)
	if !matchText("PodProtector could not be released: PodProtector " + namespace + "/web: .* cannot patch .* needs this permission").MatchString(complaint) {
		t.Errorf("error %q", complaint)
	}
	read.Verbs = append(read.Verbs, "patch")
	writer := testplane.AsServiceAccount(t, testplane.Config(t), namespace, "writer", clusterRole(t, namespace+"-writer", read))
	if _, complaint := newProtocolClientFor(t, kubeconfigOf(t, writer)).invoke("breakwater_release", given); complaint != "" {
		t.Errorf("user with get and patch: error %q", complaint)
	}
	if _, gone := finalizersOf(t, p); !gone {
		t.Error("it is still there")
	}
}

func TestTerraformReleases(t *testing.T) {
	onTerraform(t)
	namespace := testplane.Namespace(t)
	p := heldProtector(t, namespace, "web", true, v1alpha1.FinalizerProtector)
	resource.UnitTest(t, resource.TestCase{
		TerraformVersionChecks:   []tfversion.TerraformVersionCheck{tfversion.SkipBelow(tfversion.Version1_14_0)}, // actions need 1.14
		ProtoV6ProviderFactories: factories(),
		Steps: []resource.TestStep{{
			Config: configured(t, `
action "breakwater_release" "web" {
  config {
    namespace = %q
    name      = "web"
  }
}
resource "terraform_data" "go" {
  lifecycle {
    action_trigger {
      events  = [after_create]
      actions = [action.breakwater_release.web]
    }
  }
}`, namespace),
			Check: func(*terraform.State) error {
				if _, gone := finalizersOf(t, p); !gone {
					return errors.New("the protector is still there")
				}
				return nil
			},
		}},
	})
}
