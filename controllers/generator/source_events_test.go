package generator

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestEventsOnSourceReportItsProtection(t *testing.T) {
	p := newFixture(t)
	p.start()
	web := p.deployment("web", nil)
	p.create(web)
	p.waitForEvent("Deployment/web Normal Protected: Protected: floor 7 of 10 (PodProtector " + p.namespace + "/deployment-web)")
	edit(p, web, func(d *appsv1.Deployment) { *d.Spec.Replicas = 20 })
	p.waitForEvent("Deployment/web Normal Protected: Protected: floor 14 of 20 (")
	edit(p, web, func(d *appsv1.Deployment) { d.Annotations = map[string]string{"changed": "nothing"} })
	edit(p, web, func(d *appsv1.Deployment) { *d.Spec.Replicas = 0 })
	p.waitForEvent("Deployment/web Normal Protected: Protected: floor 0 of 0 (PodProtector " + p.namespace + "/deployment-web). Nothing is protected")
	p.waitForProtector("deployment-web", "the condition says that it is scaled to 0", hasTargetResolved(metav1.ConditionTrue, v1alpha1.ReasonScaledToZero))
	if got := p.countEvents("Deployment/web Normal Protected: "); got != 3 {
		t.Errorf("%d events on the Deployment, want one for each of 3 floors:\n%s", got, strings.Join(p.events(), "\n"))
	}
}

func TestEventOnSourceReportsHeldFloor(t *testing.T) {
	p := newFixture(t)
	p.startWith(p.accountWithBrake(), limitOfTwoDecreases())
	for _, name := range []string{"a", "b", "c"} {
		p.create(p.deployment(name, nil))
		p.waitForProtector("deployment-"+name, "it is protected", isSourceFound)
	}
	for _, name := range []string{"a", "b", "c"} {
		edit(p, p.deployment(name, nil), func(d *appsv1.Deployment) { *d.Spec.Replicas = 0 })
	}
	p.eventually("each held floor is an event on its Deployment", func() string {
		if p.countEvents("Deployment/a Warning FloorHeld: The floor stays in force")+p.countEvents("Deployment/b Warning FloorHeld: ")+
			p.countEvents("Deployment/c Warning FloorHeld: ") == 0 {
			return "no event"
		}
		return ""
	})
}

func TestEventOnSourceReportsSpellingMistakes(t *testing.T) {
	p := newFixture(t)
	p.start()
	web := p.deployment("web", func(d *appsv1.Deployment) {
		d.Labels = map[string]string{v1alpha1.LabelProtect: "yes"}
		d.Annotations = map[string]string{"breakwater.dev/confirm-relase": "true"}
	})
	p.create(web)
	p.waitForEvent("Deployment/web Warning UnknownKey: The label breakwater.dev/protect=yes has no effect: Breakwater knows no such value. Use one of these values: true, false.")
	edit(p, web, func(d *appsv1.Deployment) { d.Labels[v1alpha1.LabelProtect] = "true" }) // the printed remedy
	got := p.waitForProtector("deployment-web", "the condition has the mistake that is left", hasTargetResolved(metav1.ConditionTrue, v1alpha1.ReasonUnknownKey))
	if c := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionTargetResolved); !strings.Contains(c.Message, "annotation breakwater.dev/confirm-relase=true has no effect") {
		t.Errorf("condition %+v", c)
	}
	edit(p, web, func(d *appsv1.Deployment) { d.Annotations = nil })
	p.waitForProtector("deployment-web", "no mistake is left", isSourceFound)
}
