package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// vanished finds protectors that were deleted without a release but are still enforced from memory. Only the denial events of a webhook
// that remembers them show this.
func vanished(core *Core) []Finding {
	f := finder{core.where(), "vanished"}
	if core.Denials.Err != nil {
		return f.unread("Events", core.Denials.Err, "Ask for the right to list events in all namespaces, or see --as.")
	}
	if core.Protectors.Err != nil {
		return nil
	}
	there := map[string]bool{}
	for i := range core.Protectors.Value {
		there[core.Protectors.Value[i].Namespace+"/"+core.Protectors.Value[i].Name] = true
	}
	var gone []string
	for i := range core.Denials.Value {
		d := &core.Denials.Value[i]
		if name := d.Namespace + "/" + d.Protector; d.Verdict == string(quota.RefusedVanished) && !there[name] && !slices.Contains(gone, name) {
			gone = append(gone, name)
		}
	}
	if len(gone) == 0 {
		return f.ok("No removal was refused by a protector that is gone.")
	}
	slices.Sort(gone)
	return []Finding{f.bad(Problem, "Gone although nobody released them, and enforced from memory: "+some(gone)+".",
		"Do not restart webhooks. Start the generator, which makes them anew, or create them again.", "protectors-vanished")}
}

// heldFor is how long a deleted object may wait for its finalizers before it is a finding.
const heldFor = 5 * time.Minute

// held judges deleted objects that wait for a finalizer of Breakwater.
func held(core *Core, now time.Time) []Finding {
	f := finder{core.where(), "finalizers"}
	if err := core.Held.Err; err != nil {
		return f.unread("Objects with finalizers", err, "Ask for the right to list protectors, policies and workloads in all namespaces, or see --as.")
	}
	decreases := heldDecreases(core)
	var stuck []string
	for _, h := range core.Held.Value {
		// Another check reports a protector whose release is held. Removing its finalizer would release its floor.
		protector, is := strings.CutPrefix(h.Name, "PodProtector ")
		if now.Sub(h.Deleted) > heldFor && (!is || !slices.Contains(decreases, protector)) {
			stuck = append(stuck, h.Name)
		}
	}
	if len(stuck) == 0 {
		return f.ok("No object waits for a finalizer of Breakwater.")
	}
	return []Finding{f.bad(Warning, fmt.Sprintf("Deleted more than %s ago, and held by finalizers of Breakwater: %s.", heldFor, some(stuck)),
		"See their conditions and events for what they wait for. If it never comes, breakwater release lets go of them.", "")}
}
