package charts_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

const namespacesPolicy = "breakwater-aggregator-namespaces"

// Which releases contain the policy: those that let an aggregator patch namespaces in this cluster, and no others.
func TestAggregatorsAreRestrictedWhereTheyMayPatchNamespaces(t *testing.T) {
	for set, want := range map[string]bool{"worker": true, "single": true, "worker-remote-webhook": true, "everything": true, "core": false, "worker-aggregator": true} {
		objects := render(t, "--values", "breakwater/ci/"+set+".yaml", "--set", "fullnameOverride=breakwater")
		restricted, mayPatch := false, false
		for _, object := range objects {
			restricted = restricted || object.GetKind() == policyDenial && object.GetName() == namespacesPolicy
		}
		for _, role := range []string{"breakwater-aggregator", "breakwater-shares", "breakwater-access"} {
			mayPatch = mayPatch || slices.Contains(grantedPermissions(t, objects, "ClusterRole", role), "patch  namespaces *")
		}
		if restricted != mayPatch || mayPatch != want {
			t.Errorf("%s: aggregators may patch namespaces: %v, restricted by a policy: %v, want both %v", set, mayPatch, restricted, want)
		}
	}
}

func TestAggregatorsMayChangeOneLabelOfNamespaces(t *testing.T) {
	admin := apiserver(t)
	for _, object := range render(t, "--values", "breakwater/ci/single.yaml", "--set", "fullnameOverride=breakwater") {
		ofAggregator := strings.HasPrefix(object.GetKind(), "ClusterRole") && object.GetName() == "breakwater-aggregator"
		if object.GetName() != namespacesPolicy && !ofAggregator {
			continue
		}
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
		t.Cleanup(func() { _ = admin.Delete(context.Background(), object) })
	}
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "test-", Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "x"},
	}}
	if err := admin.Create(t.Context(), space); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(testplane.Config(t))
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":breakwater-aggregator"}
	account := clientFor(t, config)
	patch := func(c client.Client, metadata string) error {
		return c.Patch(t.Context(), space.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":`+metadata+`}`)), client.DryRunAll)
	}
	testplane.Eventually(t, func() string { // policies are in force some time after they are created
		if err := patch(account, `{"labels":{"team":"b"}}`); !isDenied(err) {
			return "the policy is not in force yet: " + errorText(err)
		}
		return ""
	})
	for claim, c := range map[string]struct {
		patch   string
		allowed bool
	}{
		"set the label":             {`{"labels":{"breakwater.dev/protected":"true"}}`, true},
		"change nothing":            {`{}`, true},
		"set another label as well": {`{"labels":{"breakwater.dev/protected":"true","pod-security.kubernetes.io/enforce":"privileged"}}`, false},
		"remove another label":      {`{"labels":{"team":null}}`, false},
		"change an annotation":      {`{"annotations":{"note":"y"}}`, false},
		"exempt the namespace":      {`{"labels":{"breakwater.dev/exempt":"true"}}`, false},
		"hold the namespace":        {`{"finalizers":["example.com/hold"]}`, false},
	} {
		switch err := patch(account, c.patch); {
		case c.allowed && err != nil:
			t.Errorf("%s: error %v, want it allowed", claim, err)
		case !c.allowed && !isDenied(err):
			t.Errorf("%s: error %v, want a denial by the policy", claim, err)
		}
	}
	if err := patch(admin, `{"labels":{"team":"b"}}`); err != nil {
		t.Errorf("change by another client: error %v, want it allowed", err)
	}
}
