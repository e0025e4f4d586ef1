package examples_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/terraform"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// flux is the field manager of a GitOps tool. GitOps tools override the fields of other managers.
const flux = "kustomize-controller"

// shared is a protector that Terraform manages and other managers write to as well.
type shared struct {
	*terraform.Dir
	namespace string
	client    client.Client
}

func newShared(t *testing.T, program string) *shared {
	t.Helper()
	s := &shared{Dir: terraform.New(t, program, ""), namespace: testplane.Namespace(t), client: testplane.Client(t)}
	s.Variables = []string{"KUBE_CONFIG_PATH=" + testplane.Kubeconfig(t)}
	return s
}

// configure sets the protector's fields in Terraform's configuration.
func (s *shared) configure(fields string) {
	s.Helper()
	s.Write("protector.tf", fmt.Sprintf("resource \"breakwater_pod_protector\" \"web\" {\n  namespace = %q\n  name = \"web\"\n  deletion_protection = false\n  %s\n}\n",
		s.namespace, fields))
}

// apply sets the fields and applies them.
func (s *shared) apply(fields string) string {
	s.Helper()
	s.configure(fields)
	return s.Run("apply", "-auto-approve")
}

// plan returns what Terraform would do ("nothing", "change" or "fail") and its output.
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
	s.wantWords(out, words...)
}

// applyAs applies a manifest of the protector by server-side apply, as GitOps tools do. The options can include force.
func (s *shared) applyAs(manager, fields string, options ...client.ApplyOption) error {
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

// force applies a manifest as flux, and takes over fields of other managers.
func (s *shared) force(fields string) {
	s.Helper()
	if err := s.applyAs(flux, fields, client.ForceOwnership); err != nil {
		s.Fatal(err)
	}
}

// wantApplyError runs an apply that must fail with the given words.
func (s *shared) wantApplyError(words ...string) {
	s.Helper()
	out, err := s.Try("apply", "-auto-approve")
	if err == nil {
		s.Errorf("it was applied:\n%s", out)
	}
	s.wantWords(out, words...)
}

// wantWords checks for words in the output, regardless of line breaks and alignment.
func (s *shared) wantWords(out string, words ...string) {
	s.Helper()
	flat := strings.Join(strings.Fields(strings.ReplaceAll(out, "│", " ")), " ")
	for _, w := range words {
		if !strings.Contains(flat, w) {
			s.Errorf("Terraform does not say %q:\n%s", w, out)
		}
	}
}
