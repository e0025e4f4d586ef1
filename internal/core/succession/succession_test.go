package succession_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/breakwater-k8s/breakwater/internal/core/succession"
)

// ownedPod returns the pod db-0, which names the StatefulSet db with UID old as its controller, and another owner.
func ownedPod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "db-0", UID: "pod", ResourceVersion: "7", Labels: map[string]string{"app": "db", "role": "primary"},
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "other"},
			{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "old", Controller: new(true)},
		},
	}}
}

func selecting(set map[string]string) labels.Selector { return labels.SelectorFromSet(set) }

// The facts are those of live reads, and no other facts lead to a release (rule 15).
func TestDecideSuccession(t *testing.T) {
	now := metav1.Now()
	successor := func(change func(*succession.Object)) *succession.Object {
		o := &succession.Object{UID: "new", Selector: selecting(map[string]string{"app": "db"})}
		if change != nil {
			change(o)
		}
		return o
	}
	for claim, c := range map[string]struct {
		pod   func(*corev1.Pod)
		named *succession.Object
		want  succession.Decision
		// orphan and later are the wants of IsOrphan and MayChange.
		orphan, later bool
	}{
		"releases a pod whose controller was deleted and created again": {
			named: successor(nil), want: succession.Release, orphan: true,
		},
		"keeps a pod whose controller exists": {
			named: successor(func(o *succession.Object) { o.UID = "old" }), want: succession.ControllerExists,
		},
		"keeps a pod whose controller waits for its dependents": {
			named: successor(func(o *succession.Object) { o.UID, o.Terminating = "old", true }), want: succession.ControllerTerminating, later: true,
		},
		"keeps a pod without a successor": {want: succession.NoSuccessor, orphan: true, later: true},
		"keeps a pod whose successor is being deleted": {
			named: successor(func(o *succession.Object) { o.Terminating = true }), want: succession.SuccessorTerminating, orphan: true, later: true,
		},
		"keeps a pod that the successor does not select": {
			named: successor(func(o *succession.Object) { o.Selector = selecting(map[string]string{"app": "db", "role": "replica"}) }),
			want:  succession.NotSelected, orphan: true, later: true,
		},
		"keeps a pod whose label moved out of the selector": {
			pod: func(p *corev1.Pod) { p.Labels = nil }, named: successor(nil), want: succession.NotSelected, orphan: true, later: true,
		},
		"keeps a pod when the successor states no selector": {
			named: successor(func(o *succession.Object) { o.Selector = nil }), want: succession.NoSelector, orphan: true, later: true,
		},
		"keeps a pod when the successor's selector is empty": {
			named: successor(func(o *succession.Object) { o.Selector = labels.Everything() }), want: succession.NoSelector, orphan: true, later: true,
		},
		"keeps a pod when the successor's selector selects nothing": {
			named: successor(func(o *succession.Object) { o.Selector = labels.Nothing() }), want: succession.NotSelected, orphan: true, later: true,
		},
		"keeps a pod that is being deleted": {
			pod: func(p *corev1.Pod) { p.DeletionTimestamp = &now }, named: successor(nil), want: succession.PodEnded,
		},
		"keeps a pod that has succeeded": {
			pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, named: successor(nil), want: succession.PodEnded,
		},
		"keeps a pod that has failed": {
			pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, named: successor(nil), want: succession.PodEnded,
		},
		"keeps a pod that was orphaned on purpose": {
			pod: func(p *corev1.Pod) { p.OwnerReferences = nil }, named: successor(nil), want: succession.NoController,
		},
		"keeps a pod whose only owners are not controllers": {
			pod: func(p *corev1.Pod) { p.OwnerReferences = p.OwnerReferences[:1] }, named: successor(nil), want: succession.NoController,
		},
		"keeps a pod that the successor has adopted": {
			pod: func(p *corev1.Pod) { p.OwnerReferences[1].UID = "new" }, named: successor(nil), want: succession.ControllerExists,
		},
	} {
		t.Run(claim, func(t *testing.T) {
			pod := ownedPod()
			if c.pod != nil {
				c.pod(pod)
			}
			got := succession.Decide(pod, c.named)
			if got != c.want || got.IsOrphan() != c.orphan || got.MayChange() != c.later {
				t.Errorf("Decide() = %s (orphan %v, later %v), want %s (orphan %v, later %v)", got, got.IsOrphan(), got.MayChange(), c.want, c.orphan, c.later)
			}
			if text := got.Describe(metav1.OwnerReference{Kind: "StatefulSet", Name: "db"}); text == string(got) {
				t.Errorf("Describe() = %q, want a sentence", text)
			}
		})
	}
	if got := succession.Decide(nil, successor(nil)); got != succession.PodEnded {
		t.Errorf("Decide() of a pod that does not exist = %s, want PodEnded", got)
	}
}

func TestPatchRemovesOnlyTheControllerReference(t *testing.T) {
	pod := ownedPod()
	patch, err := succession.Patch(pod)
	if err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	want := pod.DeepCopy()
	want.OwnerReferences = want.OwnerReferences[:1]
	got := &corev1.Pod{}
	if err := json.Unmarshal(after, got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("patched pod (-want +got):\n%s", diff)
	}
	var preconditions struct {
		Metadata struct{ UID, ResourceVersion string }
	}
	if err := json.Unmarshal(patch, &preconditions); err != nil || preconditions.Metadata.UID != "pod" || preconditions.Metadata.ResourceVersion != "7" {
		t.Errorf("preconditions %+v, error %v, want the UID and the version that were read", preconditions, err)
	}
	for claim, change := range map[string]func(*corev1.Pod){
		"no version":    func(p *corev1.Pod) { p.ResourceVersion = "" },
		"no UID":        func(p *corev1.Pod) { p.UID = "" },
		"no controller": func(p *corev1.Pod) { p.OwnerReferences = nil },
	} {
		other := ownedPod()
		change(other)
		if patch, err := succession.Patch(other); err == nil {
			t.Errorf("Patch() with %s = %s, want an error", claim, patch)
		}
	}
}

func TestParseSelector(t *testing.T) {
	for claim, c := range map[string]struct{ value, want string }{
		"label selector":                 {`{"matchLabels":{"app":"db"},"matchExpressions":[{"key":"role","operator":"In","values":["a"]}]}`, "app=db,role in (a)"},
		"labels":                         {`{"app":"db"}`, "app=db"},
		"labels with the value of a map": {`{"app":{"x":"y"}}`, ""},
		"empty":                          {`{}`, ""},
		"unknown operator":               {`{"matchExpressions":[{"key":"role","operator":"Like","values":["a"]}]}`, "none"},
		"invalid label":                  {`{"app":"not a label!"}`, "none"},
		"wrong type":                     {`{"matchLabels":["app"]}`, "none"},
	} {
		var value map[string]any
		if err := json.Unmarshal([]byte(c.value), &value); err != nil {
			t.Fatal(err)
		}
		got := "none"
		if selector := succession.ParseSelector(value); selector != nil {
			got = selector.String()
		}
		if got != c.want {
			t.Errorf("ParseSelector() of %s = %q, want %q", claim, got, c.want)
		}
	}
}
