package drain

import (
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// Refusal says why a pod stays.
type Refusal struct {
	Pod       string                `json:"pod"`
	Node      string                `json:"node,omitempty"`
	Protector string                `json:"protector,omitempty"`
	Verdict   removal.VerdictReason `json:"verdict"`
	Message   string                `json:"message"`
}

// Span is a duration. Its JSON form is like 1m30s.
type Span time.Duration

// MarshalText formats the Span as a Go duration.
func (s Span) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

// Wave is a set of removals that are admitted together.
type Wave struct {
	// Starts is the time from the beginning of the drain. Takes is the time until the replacements are available.
	Starts Span     `json:"startsAfter"`
	Takes  Span     `json:"takes"`
	Nodes  []string `json:"nodes,omitempty"`
	Pods   []string `json:"pods"`
	// Free are the pods whose removal consumes no budget.
	Free []string `json:"free,omitempty"`
}

// Course is the predicted result of removals.
type Course struct {
	Waves []Wave `json:"waves"`
	// First holds the first denial of each protector. Stuck holds the denials of the pods that remain at the end.
	First []Refusal `json:"firstRefusals,omitempty"`
	Stuck []Refusal `json:"stuck,omitempty"`
	// Takes is the duration of all waves.
	Takes Span `json:"takes"`
}

// Passes reports whether all pods are removed.
func (c Course) Passes() bool { return len(c.Stuck) == 0 }

// Rule says how the client requests removals.
type Rule struct {
	// AtOnce is the maximum number of removals in each wave; 0 is no limit.
	AtOnce int
	// Waits makes the client wait for replacements and then retry denied removals.
	Waits bool
}

// Play requests the removal of pods in order, wave by wave, until no pod is left or none is admitted. Before a wave begins, the pods of
// the previous wave are deleted and their replacements are available. Play assumes that no other pods return and that pods without a
// controller are not replaced.
func Play(b *Books, pods []Pod, rule Rule) Course {
	course := Course{Waves: []Wave{}}
	for left := pods; len(left) > 0; {
		wave, went, refusals := b.wave(left, rule, course.Takes)
		course.note(refusals)
		if len(went) == 0 {
			for _, p := range left {
				course.Stuck = append(course.Stuck, b.refusal(p))
			}
			return course
		}
		course.Waves = append(course.Waves, wave)
		course.Takes += wave.Takes
		left = slices.DeleteFunc(slices.Clone(left), func(p Pod) bool { return slices.Contains(went, p.Name()) })
		if !rule.Waits {
			for _, p := range left {
				course.Stuck = append(course.Stuck, b.refusal(p))
			}
			return course
		}
	}
	return course
}

// wave requests removals and updates the books for the admitted ones. It skips pods that a protector without budget would deny: budget
// does not return within a wave.
func (b *Books) wave(pods []Pod, rule Rule, starts Span) (wave Wave, went []string, stay []Refusal) {
	wave = Wave{Starts: starts, Pods: []string{}}
	usedUp := map[string]bool{}
	var going []Pod
	for _, p := range pods {
		if rule.AtOnce > 0 && len(going) >= rule.AtOnce {
			break
		}
		if b.meets(p, usedUp) {
			continue
		}
		answer := b.Ask(p)
		if !answer.Allowed {
			if answer.Blames != nil && answer.Verdict == removal.VerdictReason(quota.RefusedNoBudget) {
				usedUp[answer.Blames.String()] = true
			}
			stay = append(stay, refusalOf(p, answer))
			continue
		}
		going, went = append(going, p), append(went, p.Name())
		if wave.Pods = append(wave.Pods, p.Name()); len(b.charged[p.Name()]) == 0 {
			wave.Free = append(wave.Free, p.Name())
		}
		if node := p.Request.Pod.Spec.NodeName; !slices.Contains(wave.Nodes, node) && node != "" {
			wave.Nodes = append(wave.Nodes, node)
		}
		if p.Replaced {
			wave.Takes = max(wave.Takes, Span(p.Takes))
		}
	}
	if !rule.Waits {
		return wave, went, stay
	}
	for _, p := range going {
		b.Settle(p)
		if p.Replaced {
			b.Return(p)
		}
	}
	return wave, went, stay
}

// meets reports whether one of the named protectors is charged for a pod and has not reserved its removal yet.
func (b *Books) meets(p Pod, some map[string]bool) bool {
	if len(some) == 0 || p.Request.Passes() || p.Request.Forced() {
		return false
	}
	charges, _ := removal.Charged(b.covering(p), p.Belongs, b.cell, p.Request, b.now)
	return slices.ContainsFunc(charges, func(c removal.Charge) bool { return some[c.String()] && !b.reserved(c, p) })
}

// reserved reports whether a protector can have a reservation for a pod.
func (b *Books) reserved(c removal.Charge, p Pod) bool {
	cell := quota.CellOf(c.Protector, b.cell)
	return cell != nil && slices.ContainsFunc(cell.AdmissionHistory.Buckets, func(bucket v1alpha1.Bucket) bool {
		return bucket.PodUID == p.Request.Pod.UID || bucket.PodUID == "" // a merged bucket can include it
	})
}

// refusal says why a pod stays that was not requested or was denied. It does not reserve anything.
func (b *Books) refusal(p Pod) Refusal {
	answer := removal.Judge(b.covering(p), p.Belongs, b.cell, p.Request, b.now)
	if answer.Allowed {
		return Refusal{Pod: p.Name(), Node: p.Request.Pod.Spec.NodeName, Verdict: "Waits", Message: "it is not asked for before others are replaced"}
	}
	return refusalOf(p, answer)
}

func refusalOf(p Pod, answer removal.Answer) Refusal {
	r := Refusal{Pod: p.Name(), Node: p.Request.Pod.Spec.NodeName, Verdict: answer.Verdict}
	if answer.Status != nil {
		r.Message = answer.Status.Message
	}
	if answer.Blames != nil {
		r.Protector = answer.Blames.String()
	}
	return r
}

// note keeps the first denial of each protector.
func (c *Course) note(all []Refusal) {
	for _, r := range all {
		if !slices.ContainsFunc(c.First, func(had Refusal) bool { return had.Protector == r.Protector && had.Verdict == r.Verdict }) {
			c.First = append(c.First, r)
		}
	}
}
