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

const podsPolicy = "breakwater-webhook-pods"

// Which releases contain the policy: those that let a webhook patch pods in this cluster, and no others.
func TestTheWebhookIsRestrictedWhereItMayPatchPods(t *testing.T) {
	for set, want := range map[string]bool{"worker": true, "single": true, "worker-remote-webhook": true, "everything": true, "core": false, "core-webhook": false, "trial": false, "worker-aggregator": true} {
		objects := render(t, "--values", "breakwater/ci/"+set+".yaml", "--set", "fullnameOverride=breakwater")
		restricted, mayPatch := false, false
		for _, object := range objects {
			restricted = restricted || object.GetKind() == policyDenial && object.GetName() == podsPolicy
		}
		for _, role := range []string{"breakwater-webhook", "breakwater-access"} {
			mayPatch = mayPatch || slices.Contains(grantedPermissions(t, objects, "ClusterRole", role), "patch  pods *")
		}
		if restricted != mayPatch || mayPatch != want {
			t.Errorf("%s: webhook may patch pods: %v, restricted by a policy: %v, want both %v", set, mayPatch, restricted, want)
		}
	}
}

func TestTheWebhookMayRemoveOnlyControllerReferencesOfPods(t *testing.T) {
	admin, space := apiserver(t), testplane.Namespace(t)
	for _, object := range render(t, "--values", "breakwater/ci/worker.yaml", "--set", "fullnameOverride=breakwater") {
		ofWebhook := strings.HasPrefix(object.GetKind(), "ClusterRole") && object.GetName() == "breakwater-webhook"
		if object.GetName() != podsPolicy && !ofWebhook {
			continue
		}
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
		t.Cleanup(func() { _ = admin.Delete(context.Background(), object) })
	}
	create := func(object client.Object) {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "default"}})
	yes := true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: space, Name: "db-0", Labels: map[string]string{"app": "db"}, Annotations: map[string]string{"note": "x"}, Finalizers: []string{"example.com/hold"},
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "other"},
			{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "old", Controller: &yes},
		},
	}}
	pod.Spec.Containers = []corev1.Container{{Name: "db", Image: "db"}}
	create(pod)
	config := rest.CopyConfig(testplane.Config(t))
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":breakwater-webhook"}
	hook := clientFor(t, config)
	patch := func(text string) error {
		return hook.Patch(t.Context(), pod.DeepCopy(), client.RawPatch("application/strategic-merge-patch+json", []byte(text)), client.DryRunAll)
	}
	testplane.Eventually(t, func() string { // policies are in force some time after they are created
		if err := patch(`{"metadata":{"labels":{"app":"web"}}}`); !isDenied(err) {
			return "the policy is not in force yet: " + errorText(err)
		}
		return ""
	})
	const release = `"ownerReferences":[{"$patch":"delete","uid":"old"}]`
	for claim, c := range map[string]struct {
		patch   string
		allowed bool
	}{
		"remove the controller":                  {`{"metadata":{` + release + `}}`, true},
		"remove another owner":                   {`{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"other"}]}}`, false},
		"remove all owners":                      {`{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"old"},{"$patch":"delete","uid":"other"}]}}`, false},
		"change the controller":                  {`{"metadata":{"ownerReferences":[{"uid":"old","name":"other"}]}}`, false},
		"add an owner":                           {`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"new","uid":"new"}]}}`, false},
		"change a label":                         {`{"metadata":{` + release + `,"labels":{"app":"web"}}}`, false},
		"add a label":                            {`{"metadata":{` + release + `,"labels":{"role":"x"}}}`, false},
		"set break-glass":                        {`{"metadata":{` + release + `,"annotations":{"breakwater.dev/force-delete":"true"}}}`, false},
		"remove a finalizer":                     {`{"metadata":{` + release + `,"$deleteFromPrimitiveList/finalizers":["example.com/hold"]}}`, false},
		"change an image":                        {`{"metadata":{` + release + `},"spec":{"containers":[{"name":"db","image":"other"}]}}`, false},
		"change nothing, with a controller left": {`{"metadata":{"annotations":{"note":"x"}}}`, false},
	} {
		switch err := patch(c.patch); {
		case c.allowed && err != nil:
			t.Errorf("%s: error %v, want it allowed", claim, err)
		case !c.allowed && !isDenied(err):
			t.Errorf("%s: error %v, want a denial by the policy", claim, err)
		}
	}
	if err := admin.Patch(t.Context(), pod.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null,"labels":{"app":"web"}}}`))); err != nil {
		t.Errorf("change by another client: error %v, want it allowed", err)
	}
}
