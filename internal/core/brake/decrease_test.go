package brake

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// pendingWith returns shop/web with the condition of a pending decrease.
func pendingWith(status metav1.ConditionStatus, reason, message string) *v1alpha1.PodProtector {
	p := protector("8")
	p.Namespace, p.Name = "shop", "web"
	p.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionDecreasePending, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(start),
	}}
	return p
}

func TestDecreaseOfParsesMessage(t *testing.T) {
	reasons := map[string]string{
		v1alpha1.ReasonQuietPeriod: "", v1alpha1.ReasonLimitExceeded: "", v1alpha1.ReasonCascade: `its owner ReplicaSet "web-1.2" was deleted, but not by a user`,
	}
	causes := []string{"Deployment web.v1.2 was deleted", "Deployment web, or its policy, changed", "Rollout web is not to be protected (Policy/default was deleted)"}
	effects := []string{"release the floor of 8", "lower the floor from 8 to 2", "change operations from [Delete Evict] to []", "change the floor from minAvailable 50% to none"}
	for reason, cascade := range reasons {
		for _, cause := range causes {
			for _, effect := range effects {
				request := Request{Protector: protector("8"), Cause: cause, Effect: effect}
				want := Decrease{Reason: reason, Since: start, Cause: cause, Effect: effect}
				got, pending := DecreaseOf(pendingWith(metav1.ConditionTrue, reason, Message(request, reason, DefaultLimits(), cascade)))
				if !pending || got != want {
					t.Errorf("DecreaseOf() = %+v, %v, want %+v", got, pending, want)
				}
				if !got.IsSame(Decrease{Reason: "Other", Since: start.Add(time.Hour), Cause: cause, Effect: effect}) || got.IsSame(Decrease{Cause: cause, Effect: "other"}) {
					t.Errorf("IsSame() of %+v must compare only causes and effects", got)
				}
			}
		}
	}
	for claim, p := range map[string]*v1alpha1.PodProtector{"no condition": protector("8"), "a condition that is false": pendingWith(metav1.ConditionFalse, v1alpha1.ReasonNotPending, "None.")} {
		if got, pending := DecreaseOf(p); pending || DenialAdvice(p) != "" {
			t.Errorf("%s: DecreaseOf() = %+v, %v, want none", claim, got, pending)
		}
	}
	if got, _ := DecreaseOf(pendingWith(metav1.ConditionTrue, "Other", "By hand.")); got.Summary() != "By hand." {
		t.Errorf("Summary() of a manual message = %q, want the message", got.Summary())
	}
}

func TestDenialAdvice(t *testing.T) {
	request := Request{Protector: protector("8"), Cause: "Deployment web was deleted", Effect: "release the floor of 8"}
	for reason, c := range map[string]struct {
		message   string
		want, not string
	}{
		v1alpha1.ReasonQuietPeriod:   {Message(request, v1alpha1.ReasonQuietPeriod, DefaultLimits(), ""), "try again after its quiet period", "release --pending"},
		v1alpha1.ReasonLimitExceeded: {Message(request, v1alpha1.ReasonLimitExceeded, DefaultLimits(), ""), "held although Deployment web was deleted: if that is intended", "quiet"},
		v1alpha1.ReasonCascade:       {Message(request, v1alpha1.ReasonCascade, DefaultLimits(), "its owner was deleted"), `run "kubectl breakwater release --pending -n shop web" or annotate namespace shop in the core cluster with breakwater.dev/confirm-release=true`, "its owner"},
		"Other":                      {"By hand.", `requested: if that is intended, run "kubectl breakwater release --pending -n shop web"`, "By hand"},
	} {
		got := DenialAdvice(pendingWith(metav1.ConditionTrue, reason, c.message))
		if !strings.Contains(got, c.want) || strings.Contains(got, c.not) || strings.HasSuffix(got, ".") {
			t.Errorf("%s: DenialAdvice() = %q, want a clause with %q and without %q", reason, got, c.want, c.not)
		}
	}
}
