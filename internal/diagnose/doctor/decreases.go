package doctor

import (
	"fmt"

	"github.com/breakwater-k8s/breakwater/internal/core/brake"
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
