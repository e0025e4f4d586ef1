package findings

import (
	"fmt"

	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

// checkDecreases judges pending decreases of floors. A decrease in its quiet period is no finding: it takes effect within seconds.
func checkDecreases(f reporter, core *Core) []Finding {
	names := heldDecreases(core)
	var found string
	switch len(names) {
	case 0:
		return nil
	case 1:
		found = "The floor of 1 protector is held because a large decrease awaits confirmation: " + names[0] + "."
	default:
		found = fmt.Sprintf("The floors of %d protectors are held because large decreases await confirmation: %s.", len(names), joinNames(names))
	}
	return []Finding{f.finding(Warning, found, confirmDecreases, decreasesHeld)}
}

const confirmDecreases = "If the decreases are intended, confirm them: kubectl breakwater release --pending -A lists them and asks for confirmation. " +
	"Otherwise, restore what was deleted or changed."

// decreasesHeld is the name of the runbook.
const decreasesHeld = "decreases-held"

// heldDecreases returns the protectors whose floor is held, as namespace/name.
func heldDecreases(core *Core) (names []string) {
	for i := range core.Protectors.Value {
		p := &core.Protectors.Value[i]
		if d, pending := brake.DecreaseOf(p); pending && d.IsHeld() {
			names = append(names, p.Namespace+"/"+p.Name)
		}
	}
	return names
}

// expectationBelowPods is the name of the runbook.
const expectationBelowPods = "expectation-below-pods"

// checkExpectations judges floors that are computed from fewer pods than are available, for longer than a rollout. A floor of 0 protects none of
// the pods.
func checkExpectations(f reporter, core *Core) (found []Finding) {
	var low, none []string
	for i := range core.Protectors.Value {
		p := &core.Protectors.Value[i]
		more := status.AboveExpected(p)
		if more == 0 {
			continue
		}
		expected, _ := quota.Expected(p)
		name := fmt.Sprintf("%s/%s (%d available, %d expected)", p.Namespace, p.Name, expected+more, expected)
		if floor, known := quota.Floor(p); known && floor == 0 {
			none = append(none, name)
		} else {
			low = append(low, name)
		}
	}
	const remedy = "Set spec.expectedReplicas, or select only the pods that the workloads in the condition ExpectationBelowPods count: " +
		"kubectl breakwater status PROTECTOR."
	if len(none) > 0 {
		found = append(found, f.finding(Problem,
			"Not protected: the floor is 0, because fewer pods are expected than are available, for longer than a rollout: "+joinNames(none)+".",
			remedy, expectationBelowPods))
	}
	if len(low) > 0 {
		found = append(found, f.finding(Warning,
			"The floor may be too low, because fewer pods are expected than are available, for longer than a rollout: "+joinNames(low)+".",
			remedy, expectationBelowPods))
	}
	return found
}
