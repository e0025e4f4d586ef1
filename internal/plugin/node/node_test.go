package node

import (
	"context"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
)

// A kubelet reports every few seconds and a guard every 10, so a Node often changes between the read and the write of a release.
func TestReleaseOfAHeldPodOutlivesReportsOfTheNode(t *testing.T) {
	status, err := json.Marshal(&podhold.Status{HeldCount: 2, Held: []podhold.HeldPod{{Namespace: "shop", Name: "db-0", UID: "uid-db-0"}, {Namespace: "shop", Name: "db-1", UID: "uid-db-1"}}})
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Annotations: map[string]string{podhold.AnnotationStatus: string(status)}}}
	raced := false
	racing := fake.NewClientBuilder().WithObjects(node).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if !raced {
				raced = true
				if err := releaseHeld(ctx, c, "node-1", "shop/db-1"); err != nil {
					return err
				}
			}
			return c.Patch(ctx, object, patch, options...)
		},
	}).Build()
	if err := releaseHeld(t.Context(), racing, "node-1", "shop/db-0"); err != nil {
		t.Fatal(err)
	}
	if err := racing.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
		t.Fatal(err)
	}
	if got := node.Annotations[podhold.AnnotationRelease]; got != "uid-db-0,uid-db-1" {
		t.Errorf("annotation %q, want the UIDs of both pods", got)
	}
}
