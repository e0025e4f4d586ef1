package examples_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/e2e/harness/terraform"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// The roles on the provider's page are sufficient: a user with no other roles can apply and destroy all examples.
func TestDocumentedRolesAreSufficient(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		createFixture(t)
		d := terraform.New(t, program, "")
		prepareDir(t, d)
		path := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(path, testplane.KubeconfigOf(t, withRoles(t)), 0o600); err != nil {
			t.Fatal(err)
		}
		d.Variables = append(d.Variables, "KUBE_CONFIG_PATH="+path)
		applyAll(t, d)
		if program == terraform.Terraform {
			query(t, d)
			invokeActions(t, d)
		}
		d.Run("destroy", "-auto-approve")
	})
}

// withRoles returns a ServiceAccount that has the roles on the provider's page, and no others.
func withRoles(t *testing.T) *rest.Config {
	t.Helper()
	c, namespace := testplane.Client(t), testplane.Namespace(t)
	account := testplane.AsServiceAccount(t, testplane.Config(t), namespace, "terraform", "")
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "terraform"}}
	for _, text := range strings.Split(read(t, "provider/clusterrole.yaml"), "\n---\n") {
		kind := metav1.TypeMeta{}
		if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
			t.Fatal(err)
		}
		var err error
		if kind.Kind == "ClusterRole" {
			role := &rbacv1.ClusterRole{}
			if err := yaml.UnmarshalStrict([]byte(text), role); err != nil {
				t.Fatal(err)
			}
			role.Name = namespace
			err = createAll(t, c, role, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Subjects: subjects,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind.Kind, Name: namespace}})
		} else {
			role := &rbacv1.Role{}
			if err := yaml.UnmarshalStrict([]byte(text), role); err != nil {
				t.Fatal(err)
			}
			role.Name = namespace
			err = createAll(t, c, role, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: role.Namespace, Name: namespace}, Subjects: subjects,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind.Kind, Name: namespace}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return account
}
