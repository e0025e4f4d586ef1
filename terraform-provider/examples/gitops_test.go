package examples_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/terraform"
	"github.com/breakwater-k8s/breakwater/internal/testplane"
)

// flux is the field manager of Flux's kustomize-controller.
const flux = "kustomize-controller"

// shared is a protector that Terraform has, and that others write to as well.
type shared struct {
	*terraform.Dir
	namespace string
	client    client.Client
}

func share(t *testing.T, program string) *shared {
	t.Helper()
	s := &shared{Dir: terraform.New(t, program, ""), namespace: testplane.Namespace(t), client: testplane.Client(t)}
	s.Variables = []string{"KUBE_CONFIG_PATH=" + testplane.Kubeconfig(t)}
	return s
}

// say is what Terraform's configuration says of the protector.
func (s *shared) say(fields string) {
	s.Helper()
	s.Write("protector.tf", fmt.Sprintf("resource \"breakwater_pod_protector\" \"web\" {\n  namespace = %q\n  name = \"web\"\n  deletion_protection = false\n  %s\n}\n",
		s.namespace, fields))
}

// apply applies what is said.
func (s *shared) apply(fields string) string {
	s.Helper()
	s.say(fields)
	return s.Run("apply", "-auto-approve")
}

// plan is what Terraform would do: "nothing", "change" or "fail", and its words.
func (s *shared) plan() (string, string) {
	out, err := s.Try("plan", "-detailed-exitcode")
	switch {
	case err == nil:
		return "nothing", out
	case strings.Contains(err.Error(), "exit status 2"):
		return "change", out
	default:
		return "fail", out
	}
}

func (s *shared) expect(want string, words ...string) {
	s.Helper()
	got, out := s.plan()
	if got != want {
		s.Errorf("Terraform would %s, want %s\n%s", got, want, out)
	}
	flat := strings.Join(strings.Fields(strings.ReplaceAll(out, "│", " ")), " ")
	for _, w := range words {
		if !strings.Contains(flat, w) {
			s.Errorf("Terraform does not say %q:\n%s", w, out)
		}
	}
}

// by applies a manifest of the protector by server-side apply, as GitOps does, with force.
func (s *shared) by(manager, fields string, options ...client.ApplyOption) error {
	s.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(fields), &object.Object); err != nil {
		s.Fatal(err)
	}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PodProtector"))
	object.SetNamespace(s.namespace)
	object.SetName("web")
	return s.client.Apply(s.Context(), client.ApplyConfigurationFromUnstructured(object), append(options, client.FieldOwner(manager))...)
}

func (s *shared) live() *v1alpha1.PodProtector {
	s.Helper()
	p := &v1alpha1.PodProtector{}
	if err := s.client.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: "web"}, p); err != nil {
		s.Fatal(err)
	}
	return p
}

func TestExplore(t *testing.T) {
	each(t, func(t *testing.T, program string) {
		s := share(t, program)
		s.apply("selector = {}\n min_available = \"3\"")
		t.Log(s.by(flux, "spec: {minAvailable: 2}"))
		t.Log(s.by(flux, "spec: {minAvailable: 2}", client.ForceOwnership))
		t.Log(s.plan())
		s.say("selector = {}\n min_available = \"3\"\n force_conflicts = true")
		t.Log(s.plan())
		s.apply("selector = {}\n min_available = \"3\"\n force_conflicts = true")
		for _, m := range s.live().ManagedFields {
			t.Log(m.Manager, m.Operation, string(m.FieldsV1.Raw))
		}
		t.Log(s.by(flux, "spec: {minAvailable: 2}", client.ForceOwnership))
		t.Log(s.plan())
		// ignore changes
		s.say("selector = {}\n min_available = \"3\"\n lifecycle {\n ignore_changes = [min_available]\n}")
		t.Log(s.plan())
		t.Log(s.apply("selector = {}\n min_available = \"3\"\n labels = {a = \"b\"}\n lifecycle {\n ignore_changes = [min_available]\n}"))
		for _, m := range s.live().ManagedFields {
			t.Log(m.Manager, m.Operation, string(m.FieldsV1.Raw))
		}
		t.Log(s.by(flux, "spec: {minAvailable: 1}"))
	})
	_ = metav1.Now
}
