package sharding_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// ring is the ring of docs/how-to/sharding-controllers.md with another name, in its own namespace. The test acts as its sharder.
type ring struct {
	testing.TB
	client.Client
	// name is the name of the ring and of the namespace.
	name string
	// account has the permissions that the page lists, and no others.
	account *rest.Config
	record  *writeLog
}

func newRing(t testing.TB, leaseSeconds int) *ring {
	t.Helper()
	r := &ring{TB: t, Client: testplane.Client(t), name: testplane.Namespace(t)}
	for _, object := range r.documented() {
		if object.GetKind() == "ClusterRing" {
			if err := unstructured.SetNestedField(object.Object, int64(leaseSeconds), "spec", "leaseDurationSeconds"); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		if object.GetNamespace() == "" {
			t.Cleanup(func() { _ = r.Delete(context.Background(), object) })
		}
	}
	r.account = testplane.AsServiceAccount(t, testplane.Config(t), r.name, "example", r.name)
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.name, Name: "example"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: r.name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: r.name, Name: "example"}},
	}
	if err := r.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	r.record = newRecord(r)
	return r
}

// documented returns the objects on the page.
func (r *ring) documented() []*unstructured.Unstructured {
	r.Helper()
	page, err := os.ReadFile("../../../docs/how-to/sharding-controllers.md")
	if err != nil {
		r.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		text := strings.NewReplacer("example-system", r.name, ": example\n", ": "+r.name+"\n", "[example]", "["+r.name+"]").Replace(block[1])
		for _, document := range strings.Split(text, "---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), object); err != nil {
				r.Fatal(err)
			}
			objects = append(objects, object)
		}
	}
	return objects
}

// setLeaseDuration changes the Lease duration of shards that start from now on.
func (r *ring) setLeaseDuration(seconds int) {
	r.Helper()
	object := &v1alpha1.ClusterRing{ObjectMeta: metav1.ObjectMeta{Name: r.name}}
	patch := fmt.Sprintf(`{"spec":{"leaseDurationSeconds":%d}}`, seconds)
	if err := r.Patch(r.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		r.Fatal(err)
	}
}

// kubeconfig writes the kubeconfig of the account for a process.
func (r *ring) kubeconfig() string {
	r.Helper()
	path := filepath.Join(r.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, testplane.KubeconfigOf(r, r.account), 0o600); err != nil {
		r.Fatal(err)
	}
	return path
}

// createDeployments creates numbered Deployments that belong to a shard, or to none if shard is empty.
func (r *ring) createDeployments(count int, shard string) {
	r.Helper()
	for i := range count {
		labels := map[string]string{"app": "web"}
		deployment := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: r.name, Name: fmt.Sprintf("web-%d", i)},
			Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
			}},
		}
		if shard != "" {
			deployment.Labels = map[string]string{v1alpha1.LabelShard(r.name): shard}
		}
		if err := r.Create(r.Context(), deployment); err != nil {
			r.Fatal(err)
		}
	}
}

// setLabels sets labels of an object, and removes those whose value is nil.
func (r *ring) setLabels(object client.Object, labels map[string]any) {
	r.Helper()
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		r.Fatal(err)
	}
	if err := r.Patch(r.Context(), object, client.RawPatch(types.MergePatchType, raw)); err != nil {
		r.Fatal(err)
	}
}

// assign assigns a Deployment to a shard.
func (r *ring) assign(deployment *appsv1.Deployment, shard string) {
	r.Helper()
	r.setLabels(deployment, map[string]any{v1alpha1.LabelShard(r.name): shard, v1alpha1.LabelDrain(r.name): nil})
}

// drain asks the shard of a Deployment to release it.
func (r *ring) drain(deployment *appsv1.Deployment) {
	r.Helper()
	r.setLabels(deployment, map[string]any{v1alpha1.LabelDrain(r.name): "true"})
}

func (r *ring) deployments() []appsv1.Deployment {
	r.Helper()
	list := &appsv1.DeploymentList{}
	if err := r.List(r.Context(), list, client.InNamespace(r.name)); err != nil {
		r.Fatal(err)
	}
	return list.Items
}

// lease returns the Lease of a shard; nil if there is none.
func (r *ring) lease(shard string) *coordinationv1.Lease {
	r.Helper()
	lease := &coordinationv1.Lease{}
	err := r.Get(r.Context(), client.ObjectKey{Namespace: r.name, Name: shard}, lease)
	if client.IgnoreNotFound(err) != nil {
		r.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return lease
}

func (r *ring) holder(shard string) string {
	r.Helper()
	if lease := r.lease(shard); lease != nil && lease.Spec.HolderIdentity != nil {
		return *lease.Spec.HolderIdentity
	}
	return ""
}

// setHolder changes the holder of a Lease, as the sharder does.
func (r *ring) setHolder(shard, holder string) {
	r.Helper()
	testplane.Eventually(r, func() string {
		lease := r.lease(shard)
		lease.Spec.HolderIdentity = &holder
		if err := r.Update(r.Context(), lease); err != nil {
			return err.Error() // its shard has renewed it
		}
		return ""
	})
}
