package chaos

import (
	"fmt"
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// Evidence is all that is recorded of a scenario, and none of it comes from Breakwater.
type Evidence struct {
	Floor    int
	Truths   []Truth
	Requests []RemovalRequest
	// Outages are times in which nothing could be reserved.
	Outages []Outage
	// FaultBegan and FaultEnded are the times of the fault.
	FaultBegan, FaultEnded time.Duration
}

// Outage is a time in which nothing could be reserved. So no pod may be removed once every request that was in flight has ended.
type Outage struct {
	What     string
	From, To time.Duration
}

// Judgement is what the evidence proves.
type Judgement struct {
	// Admitted counts the admissions of removals of available pods. Legal counts those that the model explains.
	Admitted, Legal int
	// Removals is how many available pods were removed. OverAdmissions is how many of them left fewer available pods than the floor, in
	// any order of the cells. MinAvailable is the fewest over all cells.
	Removals, OverAdmissions, MinAvailable int
	// Dropped is how many pods stopped being available by themselves, or by the scenario.
	Dropped int
	// Unreviewed counts the requests that were refused because no webhook could be called.
	Unreviewed int
	// Illegal describes each admission that no order explains, and each removal in a silence.
	Illegal []string
}

// Validate judges the evidence. If no pod becomes available in a storm, the total only falls in any order of the cells, so each count is
// exact. Otherwise Validate takes, of all orders that the facts' bounds allow, the one with the fewest over-admissions: each one that it
// reports is certain (storm.Judge). The bounds are those of linearizable reads some milliseconds apart, so they hide little.
func Validate(evidence Evidence) Judgement {
	record := storm.Record{Duration: evidence.end()}
	budget := -evidence.Floor
	judgement := Judgement{}
	for _, truth := range evidence.Truths {
		record.Streams = append(record.Streams, truth.stream())
		budget += len(truth.Baseline)
		for _, fact := range truth.Facts {
			if fact.Change == storm.Dropped {
				judgement.Dropped++
			}
		}
	}
	verdict := storm.Judge(record, evidence.Floor)
	judgement.Removals, judgement.OverAdmissions, judgement.MinAvailable = verdict.Removals, verdict.OverAdmissions, verdict.MinAvailable
	judgement.Admitted, judgement.Illegal = illegal(budget, operationsOf(evidence.Requests, evidence.Truths))
	judgement.Illegal = append(judgement.Illegal, evidence.outageViolations()...)
	judgement.Legal = judgement.Admitted - len(judgement.Illegal)
	for _, ask := range evidence.Requests {
		if strings.Contains(ask.Error, webhookNotCalled) {
			judgement.Unreviewed++
		}
	}
	return judgement
}

// webhookNotCalled is the message of an API server that could not call a webhook.
const webhookNotCalled = "failed calling webhook"

// outageViolations describes the removals that certainly took effect in a silence: an API server ends a request after its timeout.
func (e Evidence) outageViolations() []string {
	var found []string
	for _, silence := range e.Outages {
		for _, truth := range e.Truths {
			for _, f := range truth.Facts {
				if f.Change == storm.Removed && f.Earliest > silence.From+requestTimeout && f.Latest < silence.To {
					found = append(found, fmt.Sprintf("%s/%s (UID %s) was removed between %s and %s although %s", truth.Cell, f.Pod,
						f.UID, f.Earliest.Round(time.Millisecond), f.Latest.Round(time.Millisecond), silence.What))
				}
			}
		}
	}
	return found
}

func (e Evidence) end() time.Duration {
	var end time.Duration
	for _, truth := range e.Truths {
		for _, fact := range truth.Facts {
			end = max(end, fact.Latest)
		}
	}
	return end
}
