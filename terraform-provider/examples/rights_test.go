package examples_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/internal/terraform"
	"github.com/breakwater-k8s/breakwater/internal/testplane"
)

// The roles of the provider's page are all that its user needs: all examples are applied, and destroyed, by one who has no other.
func TestTheRolesOfTheProvidersPageAreEnough(t *testing.T) {
	each(t, func(t *testing.T, program string) {
		world(t)
		d := terraform.New(t, program, "")
		d.Variables = surroundings(t, minimal(t))
		applyAll(t, d)
		d.Run("destroy", "-auto-approve")
	})
}

// minimal is the kubeconfig of a ServiceAccount that has the roles of the provider's page, and no others.
func minimal(t *testing.T) string {
	t.Helper()
	c := testplane.Client(t)
	namespace := testplane.Namespace(t)
	cluster, role, _ := strings.Cut(read(t, "provider/clusterrole.yaml"), "\n---\n")
	all, some := &rbacv1.ClusterRole{}, &rbacv1.Role{}
	for text, into := range map[string]any{cluster: all, role: some} {
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	all.Name, some.Name = namespace, namespace
	if err := c.Create(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), some); err != nil {
		t.Fatal(err)
	}
	account := testplane.AsServiceAccount(t, testplane.Config(t), namespace, "terraform", all.Name)
	err := c.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: some.Namespace, Name: some.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: some.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "terraform"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, testplane.KubeconfigOf(t, account), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
