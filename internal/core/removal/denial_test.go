package removal_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

func TestDenialExplainsHowToConfirmAPendingDecrease(t *testing.T) {
	const how = `the floor is held although Deployment web was deleted: if that is intended, run "kubectl breakwater release --pending -n shop deployment-web" ` +
		"or annotate namespace shop in the core cluster with breakwater.dev/confirm-release=true."
	const message = "Deployment web was deleted, which would release the floor of 2. The floor stays in force."
	for claim, c := range map[string]struct {
		outcome      quota.Outcome
		status       metav1.ConditionStatus
		reason       string
		want, absent string
	}{
		"held beyond the limit":               {quota.DeniedNoBudget, metav1.ConditionTrue, v1alpha1.ReasonLimitExceeded, "removals under way 0); " + how, "lower the floor where it is declared"},
		"held as a cascade":                   {quota.DeniedNoBudget, metav1.ConditionTrue, v1alpha1.ReasonCascade, how, "lower the floor where it is declared"},
		"in its quiet period":                 {quota.DeniedNoBudget, metav1.ConditionTrue, v1alpha1.ReasonQuietPeriod, "); a decrease of the floor is pending, so try again after its quiet period of a few seconds.", "--pending"},
		"held, and denied for another reason": {quota.DeniedFull, metav1.ConditionTrue, v1alpha1.ReasonCascade, "try again when the aggregators have seen them; " + how, ""},
		"no longer pending":                   {quota.DeniedNoBudget, metav1.ConditionFalse, v1alpha1.ReasonNotPending, "lower the floor where it is declared.", "--pending"},
		"never pending":                       {quota.DeniedNoBudget, "", "", "lower the floor where it is declared.", "--pending"},
	} {
		t.Run(claim, func(t *testing.T) {
			key := types.NamespacedName{Namespace: "shop", Name: "deployment-web"}
			p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
			if c.status != "" {
				p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionDecreasePending, Status: c.status, Reason: c.reason, Message: message}}
			}
			charge := removal.Charge{Core: "hub", Key: key, Protector: p}
			answer := deniedBy(charge, c.outcome, removal.Request{PodName: "web-0", Operation: v1alpha1.OperationDelete})
			got := answer.Status.Message
			if answer.Status.Code != 429 || !strings.HasSuffix(got, c.want) || c.absent != "" && strings.Contains(got, c.absent) {
				t.Errorf("Answer() = %d %q, want 429 with suffix %q and without %q", answer.Status.Code, got, c.want, c.absent)
			}
		})
	}
}

// deniedBy returns the answer when a protector denies a request.
func deniedBy(charge removal.Charge, outcome quota.Outcome, r removal.Request) removal.Answer {
	denial := &removal.Denial{Cause: removal.CauseProtector, By: &charge, Decision: quota.Verdict{Outcome: outcome}}
	return removal.Deny(denial, charge).Answer("worker-1", r)
}

func TestIsDisruptionBudgetDenial(t *testing.T) {
	cause := []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause}}
	denied := func(details *metav1.StatusDetails) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: 429, Reason: metav1.StatusReasonTooManyRequests, Details: details}}
	}
	for claim, c := range map[string]struct {
		err  error
		want bool
	}{
		"no error":                          {nil, false},
		"another error":                     {errors.New("cut"), false},
		"a denial without details":          {denied(nil), false},
		"a denial by a PodDisruptionBudget": {denied(&metav1.StatusDetails{Causes: cause}), true},
		"a denial by a protector":           {denied(&metav1.StatusDetails{Group: "breakwater.dev", Causes: cause}), false},
		"another denial by a protector":     {denied(&metav1.StatusDetails{Group: "breakwater.dev"}), false},
	} {
		if got := removal.IsDisruptionBudgetDenial(c.err); got != c.want {
			t.Errorf("IsDisruptionBudgetDenial() of %s = %t, want %t", claim, got, c.want)
		}
	}
}

// The garbage collector reads no message, but the event on the protector contains it.
func TestDenialToTheGarbageCollectorSaysWhatRecovers(t *testing.T) {
	charge := removal.Charge{Core: "hub", Key: types.NamespacedName{Namespace: "shop", Name: "db"}, Protector: &v1alpha1.PodProtector{}}
	owned := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", Name: "db", Controller: new(true)}}}}
	const advice = `; its owner StatefulSet "db" was deleted or is being deleted: if that is an accident, create it again, and see with kubectl breakwater adopt which pods it can adopt.`
	for claim, c := range map[string]struct {
		user    string
		pod     *corev1.Pod
		outcome quota.Outcome
		want    bool
	}{
		"the garbage collector, at the floor":       {removal.GarbageCollector, owned, quota.DeniedNoBudget, true},
		"another user":                              {"alice", owned, quota.DeniedNoBudget, false},
		"the garbage collector, for another reason": {removal.GarbageCollector, owned, quota.DeniedFull, false},
		"a pod without a controller":                {removal.GarbageCollector, &corev1.Pod{}, quota.DeniedNoBudget, false},
	} {
		request := removal.Request{User: c.user, PodName: "db-0", Pod: removal.NewPod(c.pod), Operation: v1alpha1.OperationDelete}
		message := deniedBy(charge, c.outcome, request).Status.Message
		if got := strings.HasSuffix(message, advice); got != c.want {
			t.Errorf("%s: denial %q has the advice: %v, want %v", claim, message, got, c.want)
		}
	}
}

func TestHelpIsAddedToDenialsThatClientsMayRepeat(t *testing.T) {
	const help = "https://wiki.example/removals"
	r := removal.Request{PodName: "web-0", Namespace: "shop"}
	denied := removal.Deny(&removal.Denial{Cause: removal.CauseProtectorsUnknown, Detail: "no answer"}).Answer("worker-1", r)
	for claim, c := range map[string]struct {
		answer removal.Answer
		url    string
		want   bool
	}{
		"a denial":                  {denied, help, true},
		"no page":                   {denied, "", false},
		"a pod that does not exist": {removal.Deny(&removal.Denial{Cause: removal.CauseNoPod}).Answer("worker-1", r), help, false},
	} {
		t.Run(claim, func(t *testing.T) {
			before := c.answer.Status.Message
			got := c.answer.WithHelp(c.url).Status.Message
			if has := strings.HasSuffix(got, " See "+help); has != c.want || !strings.HasPrefix(got, before) {
				t.Errorf("WithHelp() has the message %q, want a help page: %v", got, c.want)
			}
			if c.answer.Status.Message != before {
				t.Error("WithHelp() changed the answer")
			}
		})
	}
	if allowed := removal.Admit(removal.VerdictNotAvailable).Answer("worker-1", r).WithHelp(help); allowed.Status != nil {
		t.Errorf("WithHelp() of an admission = %+v, want no status", allowed)
	}
	if got := denied.Status.Message; !strings.Contains(got, "kubectl breakwater force pod/web-0 -n shop --reason TEXT") || strings.Contains(got, "exempt") {
		t.Errorf("message %q, want the narrowest way to remove the pod", got)
	}
}
