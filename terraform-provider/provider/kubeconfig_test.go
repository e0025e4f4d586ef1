package provider_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// kubeconfigWith returns a kubeconfig with the given token.
func kubeconfigWith(token string) string {
	return strings.ReplaceAll(`apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://worker.example"}}]
users: [{name: u, user: {token: TOKEN}}]
`, "TOKEN", token)
}

// writtenCell returns a Cell whose kubeconfig Terraform writes.
func writtenCell(t *testing.T, namespace, secret, token string, version int) string {
	t.Helper()
	given := fmt.Sprintf("kubeconfig_wo = <<-EOT\n%sEOT\n  kubeconfig_wo_version = %d", kubeconfigWith(token), version)
	if token == "" {
		given = ""
	}
	return configured(t, `
resource "breakwater_cell" "worker" {
  name                  = %[1]q
  kubeconfig_secret_ref = { namespace = %[1]q, name = %[2]q }
  %[3]s
}`, namespace, secret, given)
}

// secretHolds checks that the Secret contains the token. With an empty token the Secret must not exist.
func secretHolds(t *testing.T, namespace, name, token string) resource.TestCheckFunc {
	t.Helper()
	return func(s *terraform.State) error {
		secret := &corev1.Secret{}
		err := testplane.Client(t).Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, secret)
		switch {
		case token == "" && apierrors.IsNotFound(err):
			return nil
		case token == "":
			return fmt.Errorf("Secret %s is still there (%w)", name, err)
		case err != nil:
			return err
		case !strings.Contains(string(secret.Data["kubeconfig"]), token):
			return fmt.Errorf("Secret %s holds %q, which lacks %s", name, secret.Data["kubeconfig"], token)
		case strings.Contains(fmt.Sprint(s), token):
			return fmt.Errorf("the state has the token: %v", s)
		}
		return nil
	}
}

func TestKubeconfigIsWrittenOnlyIntoSecret(t *testing.T) {
	withBoth(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		steps(t,
			resource.TestStep{Config: writtenCell(t, namespace, "one", "token-1", 1), Check: secretHolds(t, namespace, "one", "token-1")},
			// Terraform cannot see that the value changed, so it does nothing.
			resource.TestStep{Config: writtenCell(t, namespace, "one", "token-2", 1), ConfigPlanChecks: nothingToDo, Check: secretHolds(t, namespace, "one", "token-1")},
			// It can see that the version changed.
			resource.TestStep{Config: writtenCell(t, namespace, "one", "token-2", 2), Check: secretHolds(t, namespace, "one", "token-2")},
			// The reference moves to another Secret, and Terraform deletes the old one.
			resource.TestStep{Config: writtenCell(t, namespace, "two", "token-3", 3), Check: resource.ComposeAggregateTestCheckFunc(
				secretHolds(t, namespace, "one", ""), secretHolds(t, namespace, "two", "token-3"))},
			resource.TestStep{Config: configured(t, ""), Check: secretHolds(t, namespace, "two", "")},
		)
	})
}

func TestForeignSecretStays(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace, c := testplane.Namespace(t), testplane.Client(t)
		theirs := &corev1.Secret{Data: map[string][]byte{"kubeconfig": []byte(kubeconfigWith("their-token")), "note": []byte("keep")}}
		theirs.Namespace, theirs.Name = namespace, "theirs"
		if err := c.Create(t.Context(), theirs); err != nil {
			t.Fatal(err)
		}
		steps(t,
			resource.TestStep{Config: writtenCell(t, namespace, "theirs", "", 0), Check: secretHolds(t, namespace, "theirs", "their-token")},
			resource.TestStep{Config: writtenCell(t, namespace, "theirs", "our-token", 1), ExpectError: matchWrapped("Secret " + namespace + "/theirs: Apply failed with 1 conflict")},
			resource.TestStep{Config: configured(t, ""), Check: secretHolds(t, namespace, "theirs", "their-token")},
		)
	})
}

func TestOwnKeyIsRemovedFromForeignSecret(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace, c := testplane.Namespace(t), testplane.Client(t)
		theirs := &corev1.Secret{Data: map[string][]byte{"note": []byte("keep")}}
		theirs.Namespace, theirs.Name = namespace, "theirs"
		if err := c.Create(t.Context(), theirs); err != nil {
			t.Fatal(err)
		}
		steps(t,
			resource.TestStep{Config: writtenCell(t, namespace, "theirs", "our-token", 1), Check: secretHolds(t, namespace, "theirs", "our-token")},
			resource.TestStep{Config: configured(t, "")},
		)
		left := &corev1.Secret{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(theirs), left); err != nil {
			t.Fatal(err)
		}
		if len(left.Data) != 1 || string(left.Data["note"]) != "keep" {
			t.Errorf("the Secret holds %v, want the note alone", left.Data)
		}
	})
}
