package storm

import (
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Outcome is how a request of the storm ended.
type Outcome string

const (
	// Admitted requests succeeded. There can be more of them than removals: two deletes of one pod may both succeed, and the deletion of a
	// pod that is not available is no removal.
	Admitted Outcome = "admitted"
	// Denied requests got 429 from an admission webhook.
	Denied Outcome = "refused"
	// Missed requests came too late: their object was already deleted.
	Missed Outcome = "missed"
	// Failed requests ended in any other error, including a 429 from another source.
	Failed Outcome = "failed"
)

// OutcomeOf derives the outcome from a client's error.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Admitted
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return Missed
	case apierrors.IsTooManyRequests(err) && isFromWebhook(err):
		return Denied
	}
	return Failed
}

// isFromWebhook reports whether a 429 comes from a webhook, and not from a disruption budget or an overloaded API server. Only the message
// differs.
func isFromWebhook(err error) bool { return strings.Contains(err.Error(), "admission webhook") }

// Counts are the outcomes of the requests of an attack. Attempted is the sum of the others.
type Counts struct {
	Attempted int `json:"attempted"`
	Admitted  int `json:"admitted"`
	Denied    int `json:"refused"`
	Missed    int `json:"missed"`
	Failed    int `json:"failed"`
}

// Plus adds two counts.
func (c Counts) Plus(other Counts) Counts {
	c.Attempted += other.Attempted
	c.Admitted += other.Admitted
	c.Denied += other.Denied
	c.Missed += other.Missed
	c.Failed += other.Failed
	return c
}

// Tally counts the outcomes of an attack while it runs, and keeps one example error of each outcome.
type Tally struct {
	mu       sync.Mutex
	counts   Counts
	examples map[Outcome]string
}

// Observe counts a request by its error and returns the outcome. The caller leaves out a request that was cut off because the storm is
// over: it is no attempt.
func (t *Tally) Observe(err error) Outcome {
	outcome := OutcomeOf(err)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.Attempted++
	switch outcome {
	case Admitted:
		t.counts.Admitted++
	case Denied:
		t.counts.Denied++
	case Missed:
		t.counts.Missed++
	case Failed:
		t.counts.Failed++
	}
	if _, known := t.examples[outcome]; err != nil && !known {
		if t.examples == nil {
			t.examples = map[Outcome]string{}
		}
		t.examples[outcome] = err.Error()
	}
	return outcome
}

// Counts returns the counts so far.
func (t *Tally) Counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts
}

// Example returns the first error with that outcome.
func (t *Tally) Example(outcome Outcome) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	example, ok := t.examples[outcome]
	return example, ok
}
