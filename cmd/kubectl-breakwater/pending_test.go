package main

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/confirm"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

// withPendingDecrease gives a protector a pending decrease with a reason, as the brake writes it.
func withPendingDecrease(reason, cause, effect string) func(*v1alpha1.PodProtector) {
	return func(p *v1alpha1.PodProtector) {
		request := brake.Request{Protector: p, Cause: cause, Effect: effect}
		p.Status.Conditions = append(p.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionDecreasePending, Status: metav1.ConditionTrue, Reason: reason,
			Message: brake.Message(request, reason, brake.DefaultLimits(), "its owner was deleted"), LastTransitionTime: metav1.NewTime(time.Now().Add(-20 * time.Minute)),
		})
	}
}

// confirmed returns the value of a protector's confirmation annotation.
func (h *hub) confirmed(name string) string {
	h.Helper()
	p := &v1alpha1.PodProtector{}
	h.must(h.Get(h.Context(), objectKey(h.namespace, name), p))
	return p.Annotations[v1alpha1.AnnotationConfirmRelease]
}

// wantConfirmed fails unless exactly the wanted protectors are confirmed, for about ten minutes.
func (h *hub) wantConfirmed(all []string, want ...string) {
	h.Helper()
	expected := map[string]bool{}
	for _, name := range want {
		expected[name] = true
	}
	for _, name := range all {
		value := h.confirmed(name)
		annotations := map[string]string{v1alpha1.AnnotationConfirmRelease: value}
		if !expected[name] && value != "" {
			h.Errorf("%s has confirmation %q, want none", name, value)
		}
		now := time.Now()
		if expected[name] && (!confirm.Confirmed(annotations, now.Add(8*time.Minute)) || confirm.Confirmed(annotations, now.Add(10*time.Minute))) {
			h.Errorf("%s has confirmation %q, want one that ends 10 minutes after %s", name, value, now.UTC().Format(time.RFC3339))
		}
	}
}

func TestPendingDecreasesAreShown(t *testing.T) {
	h := newHub(t)
	h.protect("web", 5, 9, withPendingDecrease(v1alpha1.ReasonCascade, "Deployment web was deleted", "release the floor of 5"))
	h.protect("quiet", 5, 5, withPendingDecrease(v1alpha1.ReasonQuietPeriod, "Deployment quiet was deleted", "release the floor of 5"))
	wantWords(t, h.mustRun("status"), "web 5 9 0 4 ok; decrease pending", "quiet 5 5 0 0 at floor; decrease pending")
	wantWords(t, h.mustRun("status", "web"), "Decrease pending since 20m: Cascade. Deployment web was deleted, which would release the floor of 5. The floor stays in force.",
		"To confirm the decrease: kubectl breakwater release --pending -n "+h.namespace+" web", "DecreasePending True Cascade, since 20m")
	wantNoWords(t, h.mustRun("status", "quiet"), "release --pending")
	var list struct{ Protectors []status.Protector }
	h.must(json.Unmarshal([]byte(h.mustRun("status", "-o", "json", "web")), &list))
	if d := list.Protectors[0].DecreasePending; d == nil || d.Reason != "Cascade" || d.Effect != "release the floor of 5" {
		t.Errorf("status -o json has decreasePending %+v, want the release of the floor of 5", d)
	}
}

func TestReleasePending(t *testing.T) {
	h := newHub(t)
	wantWords(t, h.mustRun("release", "--pending"), "No decrease is pending in namespace "+h.namespace+".")
	all := []string{"web", "api", "calm"}
	h.protect("web", 5, 4, withPendingDecrease(v1alpha1.ReasonLimitExceeded, "Deployment web was deleted", "release the floor of 5"))
	h.protect("api", 8, 9, withPendingDecrease(v1alpha1.ReasonLimitExceeded, "Deployment api, or its policy, changed", "lower the floor from 8 to 2"))
	h.protect("calm", 3, 9, nil)

	text := h.mustRun("release", "--pending")
	wantWords(t, text, "NAMESPACE NAME FLOOR AVAILABLE REASON SINCE ASKED FOR",
		h.namespace+" api 8 9 LimitExceeded 20m Deployment api, or its policy, changed, which would lower the floor from 8 to 2",
		h.namespace+" web 5 4 LimitExceeded 20m Deployment web was deleted, which would release the floor of 5",
		"Pending decreases: 2. Until they take effect, the floors keep 12 available pods from removal.", "Nothing was changed. Add --yes to confirm.")
	wantNoWords(t, text, "calm")
	wantNoWords(t, h.mustRun("release", "--pending", "--dry-run"), "--yes")
	h.wantConfirmed(all)

	for _, names := range [][]string{{"web", "calm"}, {"web", "none"}} {
		_, _, err := runPlugin(t, "", append(append([]string{"release", "--pending", "--yes"}, names...), h.flags...)...)
		wantErrors(t, err, []string{map[string]string{
			"calm": "PodProtector " + h.namespace + "/calm has no pending decrease", "none": `podprotectors.breakwater.dev "none" not found`,
		}[names[1]]})
	}
	h.wantConfirmed(all)

	text = h.mustRun("release", "--pending", "--yes", "podprotector/web")
	wantWords(t, text, "confirmed PodProtector "+h.namespace+"/web", "applies confirmed decreases within seconds", "expires at 20")
	wantNoWords(t, text, "api")
	h.wantConfirmed(all, "web")
	wantWords(t, h.mustRun("release", "--pending", "--yes"), "confirmed PodProtector "+h.namespace+"/api")
	h.wantConfirmed(all, "web", "api")
}

func TestReleasePendingOfAllNamespaces(t *testing.T) {
	h := newHub(t)
	h.protect("web", 5, 9, withPendingDecrease(v1alpha1.ReasonCascade, "Deployment web was deleted", "release the floor of 5"))
	contextOnly := h.flags[:2] // without the namespace
	out, _, err := runPlugin(t, "", append([]string{"release", "--pending", "-A", "--dry-run"}, contextOnly...)...)
	if err != nil {
		t.Fatal(err)
	}
	wantWords(t, out, h.namespace+" web 5 9 Cascade 20m Deployment web was deleted, which would release the floor of 5 ")
}

func TestArgumentsOfReleasePending(t *testing.T) {
	h := newHub(t)
	for claim, c := range map[string]struct {
		arguments []string
		want      string
	}{
		"a name in all namespaces":         {[]string{"-A", "web"}, "a protector has one namespace"},
		"--namespace and --all-namespaces": {[]string{"-A", "-n", "shop"}, "either --namespace or --all-namespaces"},
		"another kind":                     {[]string{"-n", "shop", "Deployment/web"}, `"Deployment/web": want NAME or podprotector/NAME`},
		"an empty name":                    {[]string{"-n", "shop", "podprotector/"}, "want NAME or podprotector/NAME"},
		"--deleted":                        {[]string{"-n", "shop", "--deleted"}, "omit --deleted and --kind"},
		"--dry-run and --yes":              {[]string{"-n", "shop", "--dry-run", "--yes"}, "either --dry-run or --yes"},
	} {
		t.Run(claim, func(t *testing.T) {
			_, _, err := runPlugin(t, "", append(append([]string{"release", "--pending"}, c.arguments...), h.flags[:2]...)...)
			wantErrors(t, err, []string{c.want})
		})
	}
	_, _, err := runPlugin(t, "", append([]string{"release", "--pending", "--as", "eve"}, h.flags...)...)
	wantErrors(t, err, []string{`User "eve" cannot list resource "podprotectors"`, fmt.Sprintf("namespace %q", h.namespace)})
}
