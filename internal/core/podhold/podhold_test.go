package podhold_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
)

var web = types.NamespacedName{Namespace: "shop", Name: "web-0"}

func running(uid types.UID) podhold.Pod {
	return podhold.Pod{
		NamespacedName: web, UID: uid, Started: true, Owner: podhold.Owner{Kind: "StatefulSet", Name: "web", UID: "set"}, Containers: []string{"app=app:1"},
	}
}

func with(p podhold.Pod, change func(*podhold.Pod)) podhold.Pod {
	change(&p)
	return p
}

func TestDecide(t *testing.T) {
	for claim, tc := range map[string]struct {
		pod         podhold.Pod
		unprotected bool
		admission   podhold.Admission
		want        podhold.Verdict
		asks        bool
	}{
		"holds a running pod whose removal was not admitted (N4)": {pod: running("a"), admission: podhold.NotAdmitted, want: podhold.Held, asks: true},
		"holds it while the answer is unknown (N4)":               {pod: running("a"), admission: podhold.Unknown, want: podhold.Held, asks: true},
		"lets an admitted removal pass (N3)":                      {pod: running("a"), admission: podhold.Admitted, want: podhold.Removed, asks: true},
		"lets a deleted pod pass, whatever the records say (N1)": {
			pod: with(running("a"), func(p *podhold.Pod) { p.Deleting = true }), admission: podhold.NotAdmitted, want: podhold.Deleted,
		},
		"lets an unprotected pod pass (N2)": {pod: running("a"), unprotected: true, admission: podhold.NotAdmitted, want: podhold.NotRelevant},
		"lets a pod that has ended pass (N2)": {
			pod: with(running("a"), func(p *podhold.Pod) { p.Ended = true }), admission: podhold.NotAdmitted, want: podhold.NotRelevant,
		},
		"lets a pod that has not started pass (N2)": {
			pod: with(running("a"), func(p *podhold.Pod) { p.Started = false }), admission: podhold.NotAdmitted, want: podhold.NotRelevant,
		},
		"lets a mirror pod pass (N2)": {
			pod: with(running("a"), func(p *podhold.Pod) { p.Mirror = true }), admission: podhold.NotAdmitted, want: podhold.NotRelevant,
		},
	} {
		t.Run(claim, func(t *testing.T) {
			if got := podhold.Decide(tc.pod, !tc.unprotected, tc.admission); got != tc.want {
				t.Errorf("Decide() = %s, want %s", got, tc.want)
			}
			if got := podhold.NeedsAdmission(tc.pod, !tc.unprotected); got != tc.asks {
				t.Errorf("NeedsAdmission() = %v, want %v", got, tc.asks)
			}
		})
	}
}

func TestEndOf(t *testing.T) {
	for claim, tc := range map[string]struct {
		facts podhold.Facts
		want  podhold.End
	}{
		"holds until something ends it":            {podhold.Facts{Admission: podhold.NotAdmitted, Held: time.Hour, Retention: 2 * time.Hour}, ""},
		"holds while the records cannot be read":   {podhold.Facts{Held: time.Hour, Retention: 2 * time.Hour}, ""},
		"ends when the removal was admitted":       {podhold.Facts{Admission: podhold.Admitted, Retention: time.Hour}, podhold.EndAdmitted},
		"ends when a user releases it":             {podhold.Facts{Released: true, Retention: time.Hour}, podhold.EndReleased},
		"ends when its name runs elsewhere (N6)":   {podhold.Facts{Replaced: true, Retention: time.Hour}, podhold.EndReplaced},
		"ends when its floors are satisfied (N8)":  {podhold.Facts{Unregistrable: true, Satisfied: true, Retention: time.Hour}, podhold.EndSatisfied},
		"waits for its registration (N8)":          {podhold.Facts{Satisfied: true, Retention: time.Hour}, ""},
		"holds while it is needed (N8)":            {podhold.Facts{Unregistrable: true, Retention: time.Hour}, ""},
		"ends after its retention":                 {podhold.Facts{Held: time.Hour, Retention: time.Hour}, podhold.EndRetention},
		"names the admission before the retention": {podhold.Facts{Admission: podhold.Admitted, Held: time.Hour, Retention: time.Hour}, podhold.EndAdmitted},
	} {
		if got := podhold.EndOf(tc.facts); got != tc.want {
			t.Errorf("%s: EndOf() = %q, want %q", claim, got, tc.want)
		}
	}
}

func TestRegistration(t *testing.T) {
	replacement := with(running("b"), func(p *podhold.Pod) { p.Started = false })
	for claim, tc := range map[string]struct {
		pod  podhold.Pod
		want podhold.Change
	}{
		"an equal pod that has not started becomes the registration": {replacement, podhold.Register},
		"its owner may have been recreated":                          {with(replacement, func(p *podhold.Pod) { p.Owner.UID = "new" }), podhold.Register},
		"one that has started stays hidden":                          {running("b"), podhold.Hide},
		"one of another owner stays hidden":                          {with(replacement, func(p *podhold.Pod) { p.Owner.Name = "api" }), podhold.Hide},
		"one with another image stays hidden":                        {with(replacement, func(p *podhold.Pod) { p.Containers = []string{"app=app:2"} }), podhold.Hide},
		"one that is being deleted stays hidden":                     {with(replacement, func(p *podhold.Pod) { p.Deleting = true }), podhold.Hide},
		"one that has ended stays hidden":                            {with(replacement, func(p *podhold.Pod) { p.Ended = true }), podhold.Hide},
		"the pod itself is shown again":                              {running("a"), podhold.Show},
	} {
		t.Run(claim, func(t *testing.T) {
			v := podhold.NewView()
			v.Observe(running("a"))
			v.Hold(web, time.Unix(1, 0), 0)
			if got := v.Observe(tc.pod); got != tc.want {
				t.Errorf("Observe() = %d, want %d", got, tc.want)
			}
			e, _ := v.Get(web)
			if e.Pod.UID != "a" || e.IsHeld() != (tc.want != podhold.Show) || (e.Registered == tc.pod.UID) != (tc.want == podhold.Register) {
				t.Errorf("the kubelet sees UID %s, held %v, registered as %q", e.Pod.UID, e.IsHeld(), e.Registered)
			}
			v.Complete(web, tc.pod.UID)
			if e, _ := v.Get(web); e.IsHeld() != (tc.want == podhold.Hide) {
				t.Errorf("held %v after its registration was completed", e.IsHeld())
			}
		})
	}
}

// The view can learn of an incomplete registration after the event that shows its deletionTimestamp, and then sees only that it is gone.
func TestVanishedRegistration(t *testing.T) {
	deleting := func(uid types.UID) podhold.Pod {
		return with(running(uid), func(p *podhold.Pod) { p.Deleting = true })
	}
	for claim, tc := range map[string]struct {
		last podhold.Pod
		want podhold.Change
	}{
		"one that a client deleted ends the pod (N1)":      {deleting("b"), podhold.Lose},
		"one that was lost leaves the pod held":            {running("b"), podhold.Hide},
		"the late deletion of another pod changes nothing": {deleting("c"), podhold.Hide},
	} {
		v := podhold.NewView(podhold.Entry{Pod: running("a"), HeldSince: time.Unix(1, 0), Lost: "a", Registered: "b"})
		got := v.Vanish(tc.last)
		if e, _ := v.Get(web); got != tc.want || e.Pod.UID != "a" || e.IsHeld() != (tc.want == podhold.Hide) || e.Pod.Deleting == e.IsHeld() {
			t.Errorf("%s: Vanish() = %d, want %d; the view has %+v", claim, got, tc.want, e)
		}
	}
}

func TestPodOf(t *testing.T) {
	controller := true
	now := metav1.Now()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-0", UID: "a", DeletionTimestamp: &now, Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Node", Name: "n", UID: "n"}, {Kind: "StatefulSet", Name: "web", UID: "set", Controller: &controller}},
		},
		Spec: corev1.PodSpec{
			NodeName: "n", InitContainers: []corev1.Container{{Name: "init", Image: "i:1"}}, Containers: []corev1.Container{{Name: "app", Image: "app:1"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodFailed, InitContainerStatuses: []corev1.ContainerStatus{{ContainerID: "containerd://1"}}},
	}
	want := podhold.Pod{
		NamespacedName: web, UID: "a", Node: "n", Deleting: true, Ended: true, Started: true, Mirror: true,
		Owner: podhold.Owner{Kind: "StatefulSet", Name: "web", UID: "set"}, Containers: []string{"init=i:1", "app=app:1"},
	}
	if diff := cmp.Diff(want, podhold.PodOf(p)); diff != "" {
		t.Errorf("PodOf() (-want +got):\n%s", diff)
	}
	if podhold.PodOf(&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{}}}}).Started {
		t.Error("a pod whose container waits has started")
	}
}

func TestIndex(t *testing.T) {
	x, err := podhold.NewIndex([]podhold.Protected{{
		List: "list", Namespace: "shop", Name: "web", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		Exempt: &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "true"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for claim, tc := range map[string]struct {
		namespace string
		labels    map[string]string
		want      bool
	}{
		"covers a pod that its selector selects": {"shop", map[string]string{"app": "web"}, true},
		"not in another namespace":               {"other", map[string]string{"app": "web"}, false},
		"not with other labels":                  {"shop", map[string]string{"app": "api"}, false},
		"not if it is exempt":                    {"shop", map[string]string{"app": "web", "canary": "true"}, false},
	} {
		if got := x.Covers(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: tc.namespace, Labels: tc.labels}}); got != tc.want {
			t.Errorf("%s: Covers() = %v", claim, got)
		}
	}
	if _, err := podhold.NewIndex([]podhold.Protected{{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}}}}); err == nil {
		t.Error("NewIndex() accepts an invalid selector")
	}
	if got := x.Covering(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{"app": "web"}}}); !slices.Equal(got, []podhold.Ref{"list/shop/web"}) {
		t.Errorf("Covering() = %v, want list/shop/web", got)
	}
	if (podhold.Index{}).Covers(&corev1.Pod{}) {
		t.Error("the zero value covers a pod")
	}
}

func TestDecideName(t *testing.T) {
	lost := time.Unix(1000, 0)
	held := podhold.Entry{Pod: running("a"), HeldSince: lost, Lost: "r"}
	replacement := with(running("b"), func(p *podhold.Pod) { p.Started = false })
	for claim, tc := range map[string]struct {
		other           podhold.Pod
		here, registers bool
		created         time.Time
		want            podhold.NameVerdict
	}{
		"finds the pod itself, which was not lost":                   {other: running("a"), here: true, created: lost, want: podhold.Present},
		"finds its registration, which was not lost":                 {other: running("r"), here: true, registers: true, created: lost, want: podhold.Present},
		"finds it although it is being deleted":                      {other: with(running("a"), func(p *podhold.Pod) { p.Deleting = true }), here: true, created: lost, want: podhold.Present},
		"removes it if it was restored without its node":             {other: with(running("a"), func(p *podhold.Pod) { p.Started = false }), created: lost, want: podhold.Remove},
		"adopts what the guard created":                              {other: with(replacement, func(p *podhold.Pod) { p.Owner = podhold.Owner{} }), here: true, registers: true, created: lost, want: podhold.Adopt},
		"adopts an equal replacement on this node":                   {other: replacement, here: true, created: lost, want: podhold.Adopt},
		"removes a replacement on another node":                      {other: replacement, created: lost, want: podhold.Remove},
		"removes one that runs something else here":                  {other: with(replacement, func(p *podhold.Pod) { p.Containers = nil }), here: true, created: lost, want: podhold.Remove},
		"removes one that has started since the loss":                {other: running("b"), created: lost.Add(-time.Minute), want: podhold.Remove},
		"yields to one that had started long before":                 {other: running("b"), created: lost.Add(-time.Hour), want: podhold.Yield},
		"removes one that has not started, however old":              {other: replacement, created: lost.Add(-time.Hour), want: podhold.Remove},
		"leaves a pod of another owner to the user":                  {other: with(running("b"), func(p *podhold.Pod) { p.Owner.Name = "api" }), created: lost, want: podhold.Foreign},
		"leaves a pod of another owner to the user, even if created": {other: with(replacement, func(p *podhold.Pod) { p.Owner.Kind = "Job" }), here: true, created: lost, want: podhold.Foreign},
	} {
		if got := podhold.DecideName(tc.other, tc.here, tc.registers, tc.created, held); got != tc.want {
			t.Errorf("%s: DecideName() = %d, want %d", claim, got, tc.want)
		}
	}
}
