package findings

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// checkVanished finds protectors that were deleted without a release but are still enforced from memory. Only the denial events of a webhook
// that remembers them show this.
func checkVanished(core *Core) []Finding {
	f := reporter{core.where(), "vanished"}
	if core.Denials.Err != nil {
		return f.unreadable("Events", core.Denials.Err, "Ask for permission to list events in all namespaces, or use --as.")
	}
	if core.Protectors.Err != nil {
		return nil
	}
	existing := map[string]bool{}
	for i := range core.Protectors.Value {
		existing[core.Protectors.Value[i].Namespace+"/"+core.Protectors.Value[i].Name] = true
	}
	var names []string
	for i := range core.Denials.Value {
		d := &core.Denials.Value[i]
		if name := d.Namespace + "/" + d.Protector; d.Verdict == string(quota.DeniedVanished) && !existing[name] && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return f.ok("No removal was denied by a protector that vanished.")
	}
	slices.Sort(names)
	return []Finding{f.finding(Problem, "Vanished without a release, and enforced from the memory of webhooks: "+joinNames(names)+".",
		"Do not restart webhooks. Start the generator, which recreates them, or recreate them yourself.", "protectors-vanished")}
}

// maxTermination is how long a deleted object may wait for its finalizers before it is a finding.
const maxTermination = 5 * time.Minute

// checkFinalizers judges deleted objects that wait for a finalizer of Breakwater.
func checkFinalizers(core *Core, now time.Time) []Finding {
	f := reporter{core.where(), "finalizers"}
	if err := core.Terminating.Err; err != nil {
		return f.unreadable("Objects with finalizers", err, "Ask for permission to list protectors, policies and workloads in all namespaces, or use --as.")
	}
	decreases := heldDecreases(core)
	var stuck []string
	for _, h := range core.Terminating.Value {
		// Another check reports a protector whose release is held. Removing its finalizer would release its floor.
		protector, isProtector := strings.CutPrefix(h.Name, "PodProtector ")
		if now.Sub(h.Deleted) > maxTermination && (!isProtector || !slices.Contains(decreases, protector)) {
			stuck = append(stuck, h.Name)
		}
	}
	if len(stuck) == 0 {
		return f.ok("No object waits for a finalizer of Breakwater.")
	}
	return []Finding{f.finding(Warning, fmt.Sprintf("Deleted more than %s ago, and held by finalizers of Breakwater: %s.", maxTermination, joinNames(stuck)),
		"Their conditions and events say what they wait for. If that cannot happen, breakwater release removes the finalizers.", "")}
}
