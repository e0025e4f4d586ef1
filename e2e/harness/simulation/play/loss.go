package play

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/judge"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// The judge still judges by its last state a protector that vanished while a keeper holds it, until the protector is recreated. After that
// it judges what the protector admitted before. It excuses the admissions of a webhook that started while the protector did not exist.

// applyProtectorStep loses a protector, deletes it as a user, or creates all that do not exist.
func (us *protectorUsers) applyProtectorStep(s scenario.Step) {
	core := us.env.core(s)
	if s.What == scenario.CreateProtector {
		us.createProtectors(core)
		return
	}
	p, ok := pick(core.protectors(), s.Who)
	if !ok {
		return
	}
	key := client.ObjectKeyFromObject(p)
	space, err := core.store.Get(apiserver.Namespaces, types.NamespacedName{Name: key.Namespace})
	if s.What == scenario.LoseOne && err == nil && space.GetDeletionTimestamp() != nil {
		return // no API server lets a keeper recreate it there
	}
	if s.What == scenario.LoseOne {
		core.store.Lose("podprotectors", key)
	} else if p.Labels == nil { // the generator owns a generated protector
		_, _ = core.store.Delete("podprotectors", key, "", "user")
	}
}

func (us *protectorUsers) createProtectors(core *clusterState) {
	for _, plan := range us.env.scenario.Protectors {
		if us.env.cores[plan.Core%len(us.env.cores)] == core {
			_, _ = core.store.Create("podprotectors", plan.Object(), "user")
		}
	}
}

// recreateForgottenProtectors acts as an operator who sees that a protector vanished that no keeper remembers, because the keeper started later. A protector
// that a keeper remembers must have been recreated by now.
func (fc *finalChecks) recreateForgottenProtectors() {
	fc.releaseUnheldProtectors()
	isKeeperRestarted := slices.ContainsFunc(fc.env.scenario.Steps, func(s scenario.Step) bool { return s.What == scenario.KillGenerator })
	err := waitUntil(convergenceTime, fc.convergence.MissingProtector)
	if fc.convergence.ForgetReleasedProtectors() {
		time.Sleep(time.Minute + maxBudgetDelay) // until webhooks have seen the end
	}
	if err == nil {
		return
	}
	if !isKeeperRestarted {
		fc.env.judge.Fail("a vanished protector was not recreated within %v", err)
	}
	for lost := range fc.env.judge.LostProtectors() {
		fc.replaceForgottenProtector(lost, policy.IsGenerated(lost.Last))
	}
}

// releaseUnheldProtectors acts as an operator who deleted a protector in a restored core, and sees that webhooks hold it: it creates the protector, and
// deletes it again.
func (fc *finalChecks) releaseUnheldProtectors() {
	ended := fc.env.judge.UnheldProtectors()
	for _, last := range ended {
		fc.replaceForgottenProtector(last, true)
	}
	if len(ended) > 0 {
		time.Sleep(time.Minute + maxBudgetDelay) // until webhooks have seen the end
	}
}

// replaceForgottenProtector creates a protector that only webhooks remember, and deletes it when they have seen it, if that is asked for.
func (fc *finalChecks) replaceForgottenProtector(lost judge.EndedProtector, deleted bool) {
	key := client.ObjectKeyFromObject(lost.Last)
	recreated := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: lost.Last.Spec}
	for _, core := range fc.env.cores {
		if core.name != lost.Core {
			continue
		}
		_, _ = core.store.Create("podprotectors", recreated, "user")
		if deleted {
			time.Sleep(5 * time.Second)
			_, _ = core.store.Delete("podprotectors", key, "", "user")
		}
	}
}
