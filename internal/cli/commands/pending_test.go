package commands

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/confirm"
)

func TestMain(m *testing.M) { testplane.Main(m) }

// createPendingDecrease creates shop/web with a pending decrease, or changes its message or status.
func createPendingDecrease(t *testing.T, c client.Client, namespace string, status metav1.ConditionStatus, message string) {
	t.Helper()
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(p), p); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if p.UID == "" {
		p.Spec.Selector, p.Spec.MinAvailable = &v1alpha1.PodSelector{}, v1alpha1.Pods(2)
		if err := c.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionDecreasePending, Status: status, Reason: v1alpha1.ReasonLimitExceeded, Message: message,
	})
	if err := c.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

func TestConfirmOnlyShownDecrease(t *testing.T) {
	const message = "Deployment web was deleted, which would release the floor of 2. It is held."
	for claim, c := range map[string]struct {
		// between runs after the preview and before the first write.
		between     func(*testing.T, client.Client, *v1alpha1.PodProtector)
		confirmed   bool
		result, err string
	}{
		"nothing changes": {nil, true, "confirmed PodProtector", ""},
		"a component writes the status": {func(t *testing.T, c client.Client, p *v1alpha1.PodProtector) {
			createPendingDecrease(t, c, p.Namespace, metav1.ConditionTrue, strings.Replace(message, "It is held.", "It is still held.", 1))
		}, true, "confirmed PodProtector", ""},
		"another decrease is pending": {func(t *testing.T, c client.Client, p *v1alpha1.PodProtector) {
			createPendingDecrease(t, c, p.Namespace, metav1.ConditionTrue, "Deployment web, or its policy, changed, which would lower the floor from 2 to 1. It is held.")
		}, false, "", "another decrease is pending now"},
		"nothing is pending any more": {func(t *testing.T, c client.Client, p *v1alpha1.PodProtector) {
			createPendingDecrease(t, c, p.Namespace, metav1.ConditionFalse, "None.")
		}, false, "no longer pending", ""},
		"the protector is released": {func(t *testing.T, c client.Client, p *v1alpha1.PodProtector) {
			if err := c.Delete(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}, false, "already released", ""},
		"the protector is created again": {func(t *testing.T, c client.Client, p *v1alpha1.PodProtector) {
			if err := c.Delete(t.Context(), p.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			createPendingDecrease(t, c, p.Namespace, metav1.ConditionTrue, message)
		}, false, "", "deleted and created again"},
	} {
		t.Run(claim, func(t *testing.T) {
			live, err := client.NewWithWatch(testplane.Config(t), client.Options{Scheme: clusters.Scheme()})
			if err != nil {
				t.Fatal(err)
			}
			namespace, between := testplane.Namespace(t), c.between
			createPendingDecrease(t, live, namespace, metav1.ConditionTrue, message)
			racing := interceptor.NewClient(live, interceptor.Funcs{
				Patch: func(ctx context.Context, to client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
					if change := between; change != nil {
						between = nil
						change(t, live, object.(*v1alpha1.PodProtector))
					}
					return to.Patch(ctx, object, patch, options...)
				},
			})
			p := pendingDecreases{client: racing, namespace: namespace, now: time.Now}
			found, err := p.find(t.Context(), nil)
			if err != nil || len(found) != 1 {
				t.Fatalf("find() = %d decreases, %v, want 1", len(found), err)
			}
			var out strings.Builder
			err = p.confirm(t.Context(), &out, found)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || !strings.Contains(out.String(), c.result) {
				t.Errorf("confirm() = %v and prints %q; want the error %q and %q", err, out.String(), c.err, c.result)
			}
			after := &v1alpha1.PodProtector{}
			if err := live.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "web"}, after); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			if got := confirm.Confirmed(after.Annotations, time.Now()); got != c.confirmed {
				t.Errorf("the protector is confirmed: %v, want %v (annotations %v)", got, c.confirmed, after.Annotations)
			}
		})
	}
}
