package drain

import (
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// Refusal is why a pod stays.
type Refusal struct {
	Pod       string                `json:"pod"`
	Node      string                `json:"node,omitempty"`
	Protector string                `json:"protector,omitempty"`
	Verdict   removal.VerdictReason `json:"verdict"`
	Message   string                `json:"message"`
}

// Span is a time in which something happens. In JSON it is as 1m30s.
type Span time.Duration

// MarshalText writes it as a duration of Go.
func (s Span) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

// Wave is removals that pass at once.
type Wave struct {
	// Starts is when, from the beginning, and Takes how long it is until the replacements are available.
	Starts Span     `json:"startsAfter"`
	Takes  Span     `json:"takes"`
	Nodes  []string `json:"nodes,omitempty"`
	Pods   []string `json:"pods"`
	// Free are those of the pods whose removal costs nothing.
	Free []string `json:"free,omitempty"`
}

// Course is what becomes of removals.
type Course struct {
	Waves []Wave `json:"waves"`
	// First are the first refusals of each protector, and Stuck are those of the pods that stay in the end.
	First []Refusal `json:"firstRefusals,omitempty"`
	Stuck []Refusal `json:"stuck,omitempty"`
	// Takes is how long it is until all waves are over.
	Takes Span `json:"takes"`
}

// Passes tells whether all pods go.
func (c Course) Passes() bool { return len(c.Stuck) == 0 }

// Rule is how removals are asked for.
type Rule struct {
	// AtOnce is how many are asked for in each wave at most; 0 is all.
	AtOnce int
	// Waits makes whoever asks wait for replacements, and ask again for what was refused.
	Waits bool
}

// Play asks for pods in their order, wave by wave, until none is left or no more go. Each wave is over, with pods gone and the
// replacements there, before the next begins: nothing else is taken to come back, and pods that nobody replaces do not.
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

// wave asks for pods, and keeps the books of those that go. Who would be refused by a protector whose budget is used up is not asked for: it
// does not come back within a wave.
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

// meets tells whether one of some protectors is charged for a pod, and has not reserved it already.
func (b *Books) meets(p Pod, some map[string]bool) bool {
	if len(some) == 0 || p.Request.Passes() || p.Request.Forced() {
		return false
	}
	charges, _ := removal.Charged(b.covering(p), p.Belongs, b.cell, p.Request, b.now)
	return slices.ContainsFunc(charges, func(c removal.Charge) bool { return some[c.String()] && !b.reserved(c, p) })
}

// reserved tells whether a protector may have a reservation of a pod.
func (b *Books) reserved(c removal.Charge, p Pod) bool {
	cell := quota.CellOf(c.Protector, b.cell)
	return cell != nil && slices.ContainsFunc(cell.AdmissionHistory.Buckets, func(bucket v1alpha1.Bucket) bool {
		return bucket.PodUID == p.Request.Pod.UID || bucket.PodUID == "" // a merged one may have it
	})
}

// refusal asks once more for a pod that was not asked for, or was refused, only to tell why.
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

// note keeps the first refusal of each protector.
func (c *Course) note(all []Refusal) {
	for _, r := range all {
		if !slices.ContainsFunc(c.First, func(had Refusal) bool { return had.Protector == r.Protector && had.Verdict == r.Verdict }) {
			c.First = append(c.First, r)
		}
	}
}
