package brake

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// A workload that was created again ends the record of its own cascade, not of that of its policy (rule 13).
func TestWorkloadRevertsOnlyItsOwnCascade(t *testing.T) {
	deleted, changed := CauseOfDeletion("Deployment web"), "Deployment web, or its policy, changed"
	policy, workload := &v1alpha1.ProtectionPolicy{}, &appsv1.Deployment{}
	terminating := workload.DeepCopy()
	terminating.DeletionTimestamp = &metav1.Time{}
	for claim, c := range map[string]struct {
		recorded, reason string
		source, deleted  metav1.Object
		want             bool
	}{
		"the workload was created again":                                        {deleted, v1alpha1.ReasonCascade, workload, nil, true},
		"the workload was created again, and a user deletes its policy":         {deleted, v1alpha1.ReasonCascade, workload, policy, true},
		"the policy was created again":                                          {changed, v1alpha1.ReasonCascade, workload, nil, true},
		"a cascade deleted the policy":                                          {changed, v1alpha1.ReasonCascade, workload, policy, false},
		"a cascade deletes the workload":                                        {deleted, v1alpha1.ReasonCascade, terminating, terminating, false},
		"a cascade deletes the workload, and its policy is deleted":             {deleted, v1alpha1.ReasonCascade, terminating, policy, false},
		"the workload does not exist":                                           {deleted, v1alpha1.ReasonCascade, nil, nil, false},
		"the workload was created again after a user had deleted it":            {deleted, v1alpha1.ReasonQuietPeriod, workload, nil, false},
		"the workload was created again, and the limits hold its first release": {deleted, v1alpha1.ReasonLimitExceeded, workload, policy, false},
	} {
		p := protector("8")
		recorded := Request{Protector: p, Cause: c.recorded, Effect: "release the floor of 8"}
		p.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionDecreasePending, Status: metav1.ConditionTrue, Reason: c.reason,
			Message: Message(recorded, c.reason, DefaultLimits(), "its owner was deleted"),
		}}
		request := Request{Protector: p, Cause: changed, Effect: "lower the floor from 8 to 2", Source: c.source, Deleted: c.deleted}
		if got := request.RevertsCascade(); got != c.want {
			t.Errorf("%s: RevertsCascade() = %v, want %v", claim, got, c.want)
		}
	}
}
