package review

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/webhook/reviews"
)

// recordingFixture is a memoryFixture with a cell that has a pod, and records of removals.
func recordingFixture(t *testing.T, stored *corev1.Pod, protectors ...*v1alpha1.PodProtector) (*memoryFixture, *kubernetesfake.Clientset) {
	t.Helper()
	d := newMemoryFixture(t, protectors...)
	cell := kubernetesfake.NewClientset(stored)
	d.cells.static[memoryCell] = cell
	d.RecordRemovals(false)
	return d, cell
}

func encode(t *testing.T, object any) runtime.RawExtension {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: raw}
}

// removalReview returns the review of a removal with the given operation and options.
func removalReview(t *testing.T, operation v1alpha1.Operation, p *corev1.Pod, options metav1.DeleteOptions) *admissionv1.AdmissionRequest {
	t.Helper()
	review := &admissionv1.AdmissionRequest{
		Namespace: p.Namespace, Name: p.Name, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
	}
	review.UserInfo.Username = "alice"
	if operation == v1alpha1.OperationEvict {
		review.Operation, review.SubResource = admissionv1.Create, "eviction"
		review.Object = encode(t, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, DeleteOptions: &options})
		return review
	}
	review.Operation, review.OldObject, review.Options = admissionv1.Delete, encode(t, p), encode(t, options)
	return review
}

func grace(seconds int64) metav1.DeleteOptions {
	return metav1.DeleteOptions{GracePeriodSeconds: &seconds}
}

func recordsIn(t *testing.T, cell kubernetes.Interface) []corev1.Event {
	t.Helper()
	list, err := cell.CoreV1().Events(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func TestAdmittedRemovalWithoutGracePeriodIsRecorded(t *testing.T) {
	withPeriod := func(seconds int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
	}
	dryRun := metav1.DeleteOptions{GracePeriodSeconds: new(int64), DryRun: []string{metav1.DryRunAll}}
	for claim, c := range map[string]struct {
		change    func(*corev1.Pod)
		options   metav1.DeleteOptions
		floor     int32
		audit     bool
		off       bool
		operation []v1alpha1.Operation
		verdict   removal.VerdictReason
		recorded  bool
	}{
		"with period 0 in the options":                {change: withPeriod(30), options: grace(0), verdict: removal.VerdictReserved, recorded: true},
		"with period 0 of the pod":                    {change: withPeriod(0), verdict: removal.VerdictReserved, recorded: true},
		"of a pod without a period":                   {verdict: removal.VerdictReserved, recorded: true},
		"not with the period of the pod":              {change: withPeriod(30), verdict: removal.VerdictReserved},
		"not with a period in the options":            {change: withPeriod(0), options: grace(1), verdict: removal.VerdictReserved},
		"not with a negative period, which means 1 s": {options: grace(-1), verdict: removal.VerdictReserved},
		"of a pod that is not available": {change: func(p *corev1.Pod) {
			p.Status.Conditions[0].Status = corev1.ConditionFalse
		}, options: grace(0), verdict: removal.VerdictNotAvailable, recorded: true},
		"by break-glass":               {change: func(p *corev1.Pod) { forced(p) }, options: grace(0), floor: 5, verdict: removal.VerdictForced, recorded: true},
		"not if it is refused":         {options: grace(0), floor: 5, verdict: "NoBudget"},
		"if audit mode admits it":      {options: grace(0), floor: 5, audit: true, verdict: "NoBudget", recorded: true},
		"not of an unprotected pod":    {change: func(p *corev1.Pod) { p.Labels["app"] = "other" }, options: grace(0), verdict: removal.VerdictUnprotected},
		"not of a finished pod":        {change: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, options: grace(0), verdict: removal.VerdictNotAvailable},
		"not of an unscheduled pod":    {change: func(p *corev1.Pod) { p.Spec.NodeName = "" }, options: grace(0), verdict: removal.VerdictNotAvailable},
		"not without --node-guard":     {options: grace(0), off: true, verdict: removal.VerdictReserved},
		"not for a dry run in options": {options: dryRun, operation: []v1alpha1.Operation{v1alpha1.OperationEvict}, verdict: removal.VerdictDryRun},
	} {
		operations := c.operation
		if operations == nil {
			operations = []v1alpha1.Operation{v1alpha1.OperationDelete, v1alpha1.OperationEvict}
		}
		for _, operation := range operations {
			t.Run(claim+"/"+string(operation), func(t *testing.T) {
				p := memoryPod("web-0")
				if c.change != nil {
					c.change(p)
				}
				d, cell := recordingFixture(t, p, memoryProtector("web", c.floor, 5))
				if d.audit = c.audit; c.off {
					d.recorder = nil
				}
				for range 2 { // a repeated request finds the record
					if answer := d.Review(t.Context(), memoryCell, removalReview(t, operation, p, c.options)); answer.Verdict != c.verdict {
						t.Errorf("verdict %s, want %s: %+v", answer.Verdict, c.verdict, answer.Status)
					}
				}
				var want []corev1.Event
				if c.recorded {
					want = []corev1.Event{{
						ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: podhold.AdmittedEvent(p.UID)},
						InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "web-0", UID: p.UID},
						Reason:         "RemovalAdmitted", Type: corev1.EventTypeNormal, Count: 1,
						Message: `Breakwater admitted the removal of pod "web-0" without a grace period, requested by "alice".`,
						Source:  corev1.EventSource{Component: "breakwater-webhook"},
					}}
				}
				if diff := cmp.Diff(want, recordsIn(t, cell), cmpopts.IgnoreTypes(metav1.Time{}, metav1.TypeMeta{}, []metav1.ManagedFieldsEntry{}), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("Events (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestDryRunIsNotRecorded(t *testing.T) {
	p, yes := memoryPod("web-0"), true
	d, cell := recordingFixture(t, p, memoryProtector("web", 0, 5))
	review := removalReview(t, v1alpha1.OperationDelete, p, grace(0))
	review.DryRun = &yes
	if answer := d.Review(t.Context(), memoryCell, review); answer.Verdict != removal.VerdictDryRun {
		t.Errorf("verdict %s, want DryRun", answer.Verdict)
	}
	if events := recordsIn(t, cell); len(events) > 0 {
		t.Errorf("got Events %+v, want none", events)
	}
}

// A pod whose protectors cannot be determined may be protected.
func TestBreakGlassRemovalIsRecordedWhileProtectorsAreUnknown(t *testing.T) {
	p := forced(memoryPod("web-0"))
	d, cell := recordingFixture(t, p)
	d.core.Synced.Store(false)
	if answer := d.Review(t.Context(), memoryCell, removalReview(t, v1alpha1.OperationDelete, p, grace(0))); answer.Verdict != removal.VerdictForced {
		t.Errorf("verdict %s, want Forced", answer.Verdict)
	}
	if events := recordsIn(t, cell); len(events) != 1 {
		t.Errorf("%d Events, want 1", len(events))
	}
}

func TestRemovalThatCannotBeRecordedIsDenied(t *testing.T) {
	terminating := apierrors.NewForbidden(corev1.Resource("events"), "web-0", errors.New("because it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for claim, c := range map[string]struct {
		err    error
		denied bool
	}{
		"without permission":             {apierrors.NewForbidden(corev1.Resource("events"), "web-0", errors.New("no")), true},
		"with an unresponsive cell":      {context.DeadlineExceeded, true},
		"but not in a deleted namespace": {apierrors.NewNotFound(corev1.Resource("namespaces"), "default"), false},
		"but not in one that is deleted": {terminating, false},
		"but not if it is recorded":      {apierrors.NewAlreadyExists(corev1.Resource("events"), "web-0"), false},
	} {
		for _, glass := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/break-glass %v", claim, glass), func(t *testing.T) {
				p := memoryPod("web-0")
				if glass {
					forced(p)
				}
				d, cell := recordingFixture(t, p, memoryProtector("web", 0, 5))
				cell.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, c.err })
				answer := d.Review(t.Context(), memoryCell, removalReview(t, v1alpha1.OperationDelete, p, grace(0)))
				if answer.Allowed == c.denied {
					t.Fatalf("allowed %v with verdict %s, want refused %v", answer.Allowed, answer.Verdict, c.denied)
				}
				if got := quota.BudgetOf(d.stored(t, "web")).Reserved; got != 1 {
					t.Errorf("%d reservations, want 1, which the next attempt renews", got)
				}
				if !c.denied {
					return
				}
				if answer.Verdict != removal.VerdictUnrecorded || answer.Status.Code != http.StatusTooManyRequests {
					t.Errorf("verdict %s with code %d, want Unrecorded with 429", answer.Verdict, answer.Status.Code)
				}
				for _, part := range []string{`pod "web-0" without a grace period`, `cell "c0"`, "node guards", "at least 1 s"} {
					if !strings.Contains(answer.Status.Message, part) {
						t.Errorf("message %q, want it to say %q", answer.Status.Message, part)
					}
				}
				if event := <-d.events.Events; strings.Contains(event, "RemovalForced") {
					t.Errorf("event %q, want that of a refusal", event)
				}
			})
		}
	}
}

// Clients that do not prove that they are API servers cannot create Events of pods that do not exist.
func TestForgedRemovalIsNotRecorded(t *testing.T) {
	p := memoryPod("web-0")
	p.Status.Conditions[0].Status = corev1.ConditionFalse // its removal is not charged, and so not verified before
	d, cell := recordingFixture(t, p, memoryProtector("web", 0, 5))
	d.serveMetadata(t, func(string) (*metav1.PartialObjectMetadata, error) { return nil, nil })
	answer := d.Review(reviews.FromUnprovenCaller(t.Context()), memoryCell, removalReview(t, v1alpha1.OperationDelete, p, grace(0)))
	if answer.Verdict != removal.VerdictNoPod {
		t.Errorf("verdict %s, want NoPod", answer.Verdict)
	}
	if events := recordsIn(t, cell); len(events) > 0 {
		t.Errorf("got Events %+v, want none", events)
	}
}
