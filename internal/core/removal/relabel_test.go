package removal_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

func labeledPod(labels map[string]string, criterion string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: "u", ResourceVersion: "7", Labels: labels}}
	if criterion != "" {
		p.Annotations = map[string]string{v1alpha1.AnnotationCriterion: criterion}
	}
	p.Spec.NodeName = "n"
	p.Spec.Containers = []corev1.Container{{Name: "web", Image: "web:1"}}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return p
}

// updateReview returns the review of an update of a pod.
func updateReview(t interface{ Fatal(args ...any) }, before, after *corev1.Pod) *admissionv1.AdmissionRequest {
	raw := func(p *corev1.Pod) []byte {
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	review := reviewOf(admissionv1.Update, "", string(raw(after)))
	review.OldObject = runtime.RawExtension{Raw: raw(before)}
	return review
}

// chargeOf returns a protector of pods with app=web that guards the given operations, or the default ones if there are none.
func chargeOf(name string, change func(*v1alpha1.PodProtectorSpec)) removal.Charge {
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
	p.Spec.MinAvailable = v1alpha1.Pods(1)
	if change != nil {
		change(&p.Spec)
	}
	return removal.Charge{Core: "core", Key: types.NamespacedName{Namespace: "default", Name: name}, Protector: p}
}

// Rule 14: a relabel that removes an available pod from a protector's coverage consumes budget like a delete.
func TestRelabelConsumesBudget(t *testing.T) {
	web := map[string]string{"app": "web"}
	operations := func(all ...v1alpha1.Operation) func(*v1alpha1.PodProtectorSpec) {
		return func(s *v1alpha1.PodProtectorSpec) { s.Operations = all }
	}
	update := []v1alpha1.Operation{v1alpha1.OperationUpdate}
	for claim, c := range map[string]struct {
		before, after *corev1.Pod
		protector     func(*v1alpha1.PodProtectorSpec)
		leavesCell    bool
		want          v1alpha1.Operation
		free          removal.VerdictReason
	}{
		"a pod that loses its label leaves":                                       {after: labeledPod(nil, ""), want: v1alpha1.OperationRelabel},
		"a pod that gets another value leaves":                                    {after: labeledPod(map[string]string{"app": "api"}, ""), want: v1alpha1.OperationRelabel},
		"a pod that gets another label stays":                                     {after: labeledPod(map[string]string{"app": "web", "a": "b"}, ""), free: removal.VerdictUnguarded},
		"a pod that becomes exempt leaves":                                        {after: labeledPod(map[string]string{"app": "web", "track": "canary"}, ""), protector: exemptsCanary, want: v1alpha1.OperationRelabel},
		"a protector that does not guard relabels is not charged":                 {after: labeledPod(nil, ""), protector: operations(v1alpha1.OperationDelete), free: removal.VerdictUnprotected},
		"a protector without spec.operations guards relabels":                     {after: labeledPod(nil, ""), protector: operations(), want: v1alpha1.OperationRelabel},
		"a pod that leaves the cell leaves":                                       {after: labeledPod(map[string]string{"app": "web", "cell": "b"}, ""), leavesCell: true, want: v1alpha1.OperationRelabel},
		"a criterion that the pod meets changes nothing":                          {after: labeledPod(web, "Ready"), free: removal.VerdictUnguarded},
		"a criterion that the pod does not meet yet leaves":                       {before: labeledPod(web, "Ready"), after: labeledPod(web, "Available"), protector: minReady, want: v1alpha1.OperationRelabel},
		"a criterion that no pod meets leaves":                                    {after: labeledPod(web, "Splendid"), want: v1alpha1.OperationRelabel},
		"a pod that is not available may leave":                                   {before: notReady(labeledPod(web, "")), after: notReady(labeledPod(nil, "")), free: removal.VerdictNotAvailable},
		"an update that relabels consumes budget as a relabel":                    {after: withImage(labeledPod(nil, "")), protector: operations(v1alpha1.OperationRelabel, v1alpha1.OperationUpdate), want: v1alpha1.OperationRelabel},
		"an update that relabels is an update where relabels are not guarded":     {after: withImage(labeledPod(nil, "")), protector: operations(update...), want: v1alpha1.OperationUpdate},
		"an update that keeps the coverage is an update":                          {after: withImage(labeledPod(map[string]string{"app": "web", "a": "b"}, "")), protector: operations(update...), want: v1alpha1.OperationUpdate},
		"an update that keeps the coverage is free where updates are not guarded": {after: withImage(labeledPod(map[string]string{"app": "web", "a": "b"}, "")), free: removal.VerdictUnprotected},
	} {
		t.Run(claim, func(t *testing.T) {
			if c.before == nil {
				c.before = labeledPod(web, "")
			}
			r, guarded, err := removal.Parse(updateReview(t, c.before, c.after))
			if err != nil || !guarded {
				t.Fatalf("Parse() guarded %v, error %v; want a guarded request", guarded, err)
			}
			covering := chargeOf("web", c.protector)
			covering.LeavesCell = c.leavesCell
			charges, free := chargesFor(r, covering)
			if c.want == "" {
				if len(charges) != 0 || free != c.free {
					t.Errorf("ChargesFor() = %d charges and %s, want none and %s", len(charges), free, c.free)
				}
				return
			}
			if len(charges) != 1 {
				t.Fatalf("ChargesFor() = no charge and %s, want a charge for %s", free, c.want)
			}
			attempt := charges[0].AttemptFor(r.Attempt("c0", time.Now(), ""))
			isRelabel := c.want == v1alpha1.OperationRelabel
			if attempt.Operation != c.want || (attempt.PodVersion == 7) != isRelabel || (attempt.Generation != 0) == isRelabel || (attempt.Containers != nil) == isRelabel {
				t.Errorf("AttemptFor() = %+v, want %s, with the pod's version or with its generation and containers", attempt, c.want)
			}
		})
	}
}

// chargesFor returns those of the protectors that cover a pod of cell c0 that a request consumes budget of.
func chargesFor(r removal.Request, covering ...removal.Charge) ([]removal.Charge, removal.VerdictReason) {
	removal.AssessAll(covering, "c0", r, time.Now())
	return removal.ChargesFor(covering, true, r)
}

func exemptsCanary(s *v1alpha1.PodProtectorSpec) {
	s.ExemptPodSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"track": "canary"}}
}

func minReady(s *v1alpha1.PodProtectorSpec) { s.MinReadySeconds = math.MaxInt32 }

func notReady(p *corev1.Pod) *corev1.Pod {
	p.Status.Conditions[0].Status = corev1.ConditionFalse
	return p
}

func withImage(p *corev1.Pod) *corev1.Pod {
	p.Spec.Containers[0].Image, p.Generation = "web:2", 2
	return p
}

func TestUpdateThatKeepsCoverageIsNotGuarded(t *testing.T) {
	before := labeledPod(map[string]string{"app": "web"}, "Ready")
	for claim, change := range map[string]func(*corev1.Pod){
		"nothing":                    func(*corev1.Pod) {},
		"another annotation":         func(p *corev1.Pod) { p.Annotations["note"] = "hello" },
		"the break-glass annotation": func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationForceDelete] = "true" },
		"an owner":                   func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web"}} },
		"a finalizer":                func(p *corev1.Pod) { p.Finalizers = []string{"example.com/hold"} },
		"the tolerations":            func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "a"}} },
	} {
		t.Run(claim, func(t *testing.T) {
			after := before.DeepCopy()
			change(after)
			if r, guarded, err := removal.Parse(updateReview(t, before, after)); guarded || err != nil {
				t.Errorf("Parse() = %+v, guarded %v, error %v, want an unguarded request", r, guarded, err)
			}
		})
	}
	t.Run("a version that is no number is later than all others", func(t *testing.T) {
		odd := before.DeepCopy()
		odd.ResourceVersion = "one"
		r, _, err := removal.Parse(updateReview(t, odd, labeledPod(nil, "")))
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Attempt("c0", time.Now(), "").PodVersion; got != math.MaxInt64 {
			t.Errorf("reviewed version = %d, want the highest", got)
		}
	})
}

// Rule 14: labels and annotations also change through pods/status. The status in such a request decides nothing: the pod has the stored
// one when it leaves.
func TestRelabelThroughStatusConsumesBudget(t *testing.T) {
	web := map[string]string{"app": "web"}
	running := func(s *v1alpha1.PodProtectorSpec) { s.Criterion = v1alpha1.CriterionRunning }
	for claim, c := range map[string]struct {
		before, after *corev1.Pod
		protector     func(*v1alpha1.PodProtectorSpec)
		want          bool // a Relabel is charged
		free          removal.VerdictReason
	}{
		"a pod that loses its label leaves":                            {after: labeledPod(nil, ""), want: true},
		"a pod that loses its label and its readiness leaves":          {after: notReady(labeledPod(nil, "")), want: true},
		"a pod that loses its label and finishes leaves":               {after: inPhase(labeledPod(nil, ""), corev1.PodFailed), want: true},
		"a pod that becomes exempt leaves":                             {after: labeledPod(map[string]string{"app": "web", "track": "canary"}, ""), protector: exemptsCanary, want: true},
		"a criterion that no pod meets leaves":                         {after: labeledPod(web, "Splendid"), want: true},
		"a criterion that only the status of the request meets leaves": {before: notReady(labeledPod(web, "")), after: labeledPod(web, "Ready"), protector: running, want: true},
		"a criterion that the stored status meets stays":               {after: notReady(labeledPod(web, "Ready")), free: removal.VerdictUnguarded},
		"a pod that gets another label stays":                          {after: labeledPod(map[string]string{"app": "web", "a": "b"}, ""), free: removal.VerdictUnguarded},
		"a pod that is not available may leave":                        {before: notReady(labeledPod(web, "")), after: labeledPod(nil, ""), free: removal.VerdictNotAvailable},
		"a protector that does not guard relabels is not charged":      {after: labeledPod(nil, ""), protector: deletions, free: removal.VerdictUnprotected},
		"an image, which the API server ignores here, is no update":    {after: withImage(labeledPod(nil, "")), protector: updates, free: removal.VerdictUnprotected},
	} {
		t.Run(claim, func(t *testing.T) {
			if c.before == nil {
				c.before = labeledPod(web, "")
			}
			r, guarded, err := removal.Parse(throughStatus(updateReview(t, c.before, c.after)))
			if err != nil || !guarded {
				t.Fatalf("Parse() guarded %v, error %v; want a guarded request", guarded, err)
			}
			charges, free := chargesFor(r, chargeOf("web", c.protector))
			if len(charges) > 0 != c.want || !c.want && free != c.free {
				t.Fatalf("ChargesFor() = %d charges and %s, want a charge: %v, otherwise %s", len(charges), free, c.want, c.free)
			}
			if !c.want {
				return
			}
			if attempt := charges[0].AttemptFor(r.Attempt("c0", time.Now(), "")); attempt.Operation != v1alpha1.OperationRelabel || attempt.PodVersion != 7 {
				t.Errorf("AttemptFor() = %+v, want a Relabel at the version of the pod", attempt)
			}
		})
	}
	t.Run("a change of the status alone is not guarded", func(t *testing.T) {
		before, after := labeledPod(web, "Ready"), notReady(labeledPod(web, "Ready"))
		if r, guarded, err := removal.Parse(throughStatus(updateReview(t, before, after))); guarded || err != nil {
			t.Errorf("Parse() = %+v, guarded %v, error %v, want an unguarded request", r, guarded, err)
		}
	})
}

func throughStatus(review *admissionv1.AdmissionRequest) *admissionv1.AdmissionRequest {
	review.SubResource = "status"
	return review
}

func inPhase(p *corev1.Pod, phase corev1.PodPhase) *corev1.Pod {
	p.Status.Phase = phase
	return p
}

func deletions(s *v1alpha1.PodProtectorSpec) {
	s.Operations = []v1alpha1.Operation{v1alpha1.OperationDelete}
}

func updates(s *v1alpha1.PodProtectorSpec) {
	s.Operations = []v1alpha1.Operation{v1alpha1.OperationUpdate}
}

// Rules 7 and 14 against a slow oracle: exactly the protectors that lose the pod are charged, each for its own operation.
func TestProtectorsThatLoseThePodAreCharged(t *testing.T) {
	keys, values := []string{"app", "tier"}, []string{"", "a", "b"}
	labels := rapid.Custom(func(t *rapid.T) map[string]string {
		all := map[string]string{}
		for _, key := range keys {
			if value := rapid.SampledFrom(values).Draw(t, key); value != "" {
				all[key] = value
			}
		}
		return all
	})
	rapid.Check(t, func(t *rapid.T) {
		before, after := labeledPod(labels.Draw(t, "before"), ""), labeledPod(labels.Draw(t, "after"), "")
		if rapid.Bool().Draw(t, "not ready") {
			notReady(before)
		}
		if rapid.Bool().Draw(t, "updates") {
			withImage(after)
		}
		var covering []removal.Charge
		want := map[string]v1alpha1.Operation{}
		for i := range rapid.IntRange(0, 3).Draw(t, "protectors") {
			key, value := rapid.SampledFrom(keys).Draw(t, "key"), rapid.SampledFrom(values[1:]).Draw(t, "value")
			operations := rapid.SliceOfNDistinct(rapid.SampledFrom([]v1alpha1.Operation{
				v1alpha1.OperationDelete, v1alpha1.OperationUpdate, v1alpha1.OperationRelabel,
			}), 1, 3, rapid.ID).Draw(t, "operations")
			c := chargeOf(fmt.Sprint("p", i), func(s *v1alpha1.PodProtectorSpec) {
				s.Selector, s.Operations = &v1alpha1.PodSelector{MatchLabels: map[string]string{key: value}}, operations
			})
			if before.Labels[key] != value {
				continue // it does not cover the pod
			}
			covering = append(covering, c)
			switch {
			case before.Status.Conditions[0].Status != corev1.ConditionTrue:
			case after.Labels[key] != value && slices.Contains(operations, v1alpha1.OperationRelabel):
				want[c.Key.Name] = v1alpha1.OperationRelabel
			case after.Generation > 0 && slices.Contains(operations, v1alpha1.OperationUpdate):
				want[c.Key.Name] = v1alpha1.OperationUpdate
			}
		}
		got := map[string]v1alpha1.Operation{}
		r, guarded, err := removal.Parse(updateReview(t, before, after))
		if err != nil {
			t.Fatal(err)
		}
		if guarded {
			charges, _ := chargesFor(r, covering...)
			for _, c := range charges {
				got[c.Key.Name] = c.AttemptFor(r.Attempt("c0", time.Now(), "")).Operation
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("charges (-want +got):\n%s", diff)
		}
	})
}

func TestDenialOfARelabelSaysRelabel(t *testing.T) {
	c := chargeOf("web", nil)
	c.Protector.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "c0", Aggregation: v1alpha1.Aggregation{
		CountedReplicas: 1, CountedSpec: quota.CountedSpec(&c.Protector.Spec),
	}}}
	r, _, err := removal.Parse(updateReview(t, labeledPod(map[string]string{"app": "web"}, ""), labeledPod(nil, "")))
	if err != nil {
		t.Fatal(err)
	}
	answer := removal.DecideDryRun([]removal.Charge{c}, true, "c0", r, time.Now())
	if answer.Allowed || !strings.HasPrefix(answer.Status.Message, `Breakwater refuses to relabel pod "web-0": PodProtector default/web`) {
		t.Errorf("DecideDryRun() = %+v, want a denial of a relabel", answer)
	}
}
