package waves

import (
	"fmt"
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// Denial says why a pod stays.
type Denial struct {
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

// Outcome is the predicted result of removals.
type Outcome struct {
	Waves []Wave
	// Stuck holds the denials of the pods that remain at the end.
	Stuck []Denial
	// Takes is the duration of all waves.
	Takes Span
}

// Strategy says how the client requests removals.
type Strategy struct {
	// Timeout is the time after which the client stops to retry; 0 is no limit.
	Timeout time.Duration
	// AbortNode makes a denied removal end the drain of its node, as kubectl drain --disable-eviction does.
	AbortNode bool
}

// Simulate requests the removal of pods in order, wave by wave, until no pod is left or none is admitted. Before a wave begins, the pods of
// the previous wave are deleted and their replacements are available. Simulate assumes that no other pods return and that pods without a
// controller are not replaced.
func Simulate(b *Simulation, pods []Pod, rule Strategy) Outcome {
	outcome := Outcome{Waves: []Wave{}}
	for left := pods; len(left) > 0; {
		if rule.Timeout > 0 && time.Duration(outcome.Takes) > rule.Timeout {
			outcome.addTimeouts(left, rule.Timeout)
			return outcome
		}
		wave, admitted, denied := b.simulateWave(left, rule, outcome.Takes)
		if len(admitted) > 0 {
			outcome.Waves = append(outcome.Waves, wave)
			outcome.Takes += wave.Takes
		}
		left = slices.DeleteFunc(slices.Clone(left), func(p Pod) bool { return slices.Contains(admitted, p.Name()) })
		if len(admitted) == 0 || rule.AbortNode {
			for _, p := range left {
				outcome.Stuck = append(outcome.Stuck, stuckDenial(p, denied))
			}
			return outcome
		}
	}
	return outcome
}

// stuckDenial says why a pod stays at the end. The client did not request the removal of a pod that denied does not have.
func stuckDenial(p Pod, denied []Denial) Denial {
	if at := slices.IndexFunc(denied, func(r Denial) bool { return r.Pod == p.Name() }); at >= 0 {
		return denied[at]
	}
	return Denial{
		Pod: p.Name(), Node: p.Request.Pod.Spec.NodeName, Verdict: "NotRequested",
		Message: "kubectl drain --disable-eviction ends at the first denial on a node, and does not request the removal of the pods after it",
	}
}

func (c *Outcome) addTimeouts(left []Pod, timeout time.Duration) {
	for _, p := range left {
		c.Stuck = append(c.Stuck, Denial{
			Pod: p.Name(), Node: p.Request.Pod.Spec.NodeName, Verdict: "Timeout",
			Message: fmt.Sprintf("kubectl drain ends after --timeout %s, and its removal has to wait for %s", timeout, time.Duration(c.Takes)),
		})
	}
}

// simulateWave requests removals and updates the books for the admitted ones.
func (b *Simulation) simulateWave(pods []Pod, rule Strategy, starts Span) (wave Wave, admitted []string, denied []Denial) {
	wave = Wave{Starts: starts, Pods: []string{}}
	aborted := map[string]bool{}
	var removing []Pod
	for _, p := range pods {
		node := p.Request.Pod.Spec.NodeName
		if aborted[node] {
			continue
		}
		answer := b.Request(p)
		if !answer.Allowed {
			aborted[node] = rule.AbortNode
			denied = append(denied, denialOf(p, answer))
			continue
		}
		removing, admitted = append(removing, p), append(admitted, p.Name())
		if wave.Pods = append(wave.Pods, p.Name()); len(b.charged[p.Name()]) == 0 {
			wave.Free = append(wave.Free, p.Name())
		}
		if !slices.Contains(wave.Nodes, node) && node != "" {
			wave.Nodes = append(wave.Nodes, node)
		}
		if p.HasReplacement {
			wave.Takes = max(wave.Takes, Span(p.ReplacementTime))
		}
	}
	for _, p := range removing {
		b.Settle(p)
		if p.HasReplacement {
			b.AddReplacement(p)
		}
	}
	return wave, admitted, denied
}

func denialOf(p Pod, answer removal.Answer) Denial {
	r := Denial{Pod: p.Name(), Node: p.Request.Pod.Spec.NodeName, Verdict: answer.Verdict}
	if answer.Status != nil {
		r.Message = answer.Status.Message
	}
	if answer.DeniedBy != nil {
		r.Protector = answer.DeniedBy.String()
	}
	return r
}
