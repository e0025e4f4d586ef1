package live_test

import (
	"errors"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain/live"
)

func status(code int32, message string, causes ...metav1.StatusCause) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: message, Details: &metav1.StatusDetails{Causes: causes}}}
}

// If no core could be read, only an answer of admission is a verdict.
func TestRecordAnswerOfUnknownVerdict(t *testing.T) {
	unknown := explain.Explanation{Asked: explain.AskedUnknown, Verdict: "Unknown", CoresUnread: "no core"}
	for claim, c := range map[string]struct {
		said     error
		recorded bool
		allowed  bool
	}{
		"an admission":                     {nil, true, true},
		"a denial of a webhook":            {status(429, `admission webhook "pods.breakwater.dev" denied the request: Breakwater refuses.`), true, false},
		"a webhook that cannot be called":  {status(500, `Internal error occurred: failed calling webhook "pods.breakwater.dev": EOF`), true, false},
		"a denial of a disruption budget":  {status(429, "Cannot evict pod", metav1.StatusCause{Type: policyv1.DisruptionBudgetCause}), true, false},
		"not a user without permission":    {status(403, `pods "web-0" is forbidden: User "jane" cannot delete resource "pods"`), false, false},
		"not a pod that does not exist":    {status(404, `pods "web-0" not found`), false, false},
		"not an API server that is silent": {errors.New("no route to host"), false, false},
	} {
		e := unknown
		err := live.RecordAnswer(&e, c.said)
		switch {
		case c.recorded && (err != nil || e.Answer == nil || e.Answer.Allowed != c.allowed || e.Answer.Agrees):
			t.Errorf("%s: RecordAnswer() recorded %+v, error %v, want allowed %v", claim, e.Answer, err, c.allowed)
		case !c.recorded && (!errors.Is(err, c.said) || e.Answer != nil):
			t.Errorf("%s: RecordAnswer() recorded %+v, error %v, want only the error", claim, e.Answer, err)
		}
	}
}

func TestRecordAnswerAgrees(t *testing.T) {
	denial := explain.Explanation{Asked: explain.AskedYes, Verdict: "NoBudget", Code: 429, Message: "Breakwater refuses."}
	allowed := explain.Explanation{Asked: explain.AskedYes, Allowed: true}
	unasked := denial
	unasked.Asked = explain.AskedNo
	denied := `admission webhook "pods.breakwater.dev" denied the request: `
	for claim, c := range map[string]struct {
		explained explain.Explanation
		said      error
		want      bool
	}{
		"both admit it":                                       {allowed, nil, true},
		"both deny it with the same message":                  {denial, status(429, denied+"Breakwater refuses."), true},
		"not an unexplained denial":                           {allowed, status(429, denied+"Breakwater refuses."), false},
		"not an unexplained admission":                        {denial, nil, false},
		"not another message":                                 {denial, status(429, denied+"Breakwater refuses for another reason."), false},
		"not another code":                                    {denial, status(403, denied+"Breakwater refuses."), false},
		"not called, and admitted":                            {unasked, nil, true},
		"a PodDisruptionBudget denies what Breakwater admits": {allowed, status(429, "Cannot evict pod", metav1.StatusCause{Type: policyv1.DisruptionBudgetCause}), true},
		"and not before":                                      {denial, status(429, "Cannot evict pod", metav1.StatusCause{Type: policyv1.DisruptionBudgetCause}), false},
	} {
		e := c.explained
		if err := live.RecordAnswer(&e, c.said); err != nil || e.Answer.Agrees != c.want {
			t.Errorf("%s: Compare() agrees %v, error %v", claim, e.Answer, err)
		}
	}
	e := allowed
	if err := live.RecordAnswer(&e, errors.New("no route to host")); err == nil || e.Answer != nil {
		t.Errorf("RecordAnswer() of a network error recorded answer %v, want none", e.Answer)
	}
}
