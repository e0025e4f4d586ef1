package doctor

import (
	"fmt"

	"github.com/breakwater-k8s/breakwater/internal/core/brake"
)

// decreases judges pending decreases of floors. A decrease in its quiet period is no finding: it takes effect within seconds.
func decreases(f finder, core *Core) []Finding {
	names := heldDecreases(core)
	var found string
	switch len(names) {
	case 0:
		return nil
	case 1:
		found = "The floor of 1 protector is held although a large decrease of it was asked for: " + names[0] + "."
	default:
		found = fmt.Sprintf("The floors of %d protectors are held although large decreases of them were asked for: %s.", len(names), some(names))
	}
	return []Finding{f.bad(Warning, found, confirmDecreases, decreasesHeld)}
}

const confirmDecreases = "If that is intended, confirm it: kubectl breakwater release --pending -A shows what would be released, and asks. " +
	"If it is an accident, restore what was deleted or changed."

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
