package chaos

import (
	"fmt"
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// Evidence is all that is known of a scenario, and nothing of it from Breakwater.
type Evidence struct {
	Floor  int
	Truths []Truth
	Asks   []Ask
	// Silences are times in which nothing could be reserved.
	Silences []Silence
}

// Silence is a time in which nothing could be reserved, so that nothing must be removed once every request that was
// on its way has ended.
type Silence struct {
	What     string
	From, To time.Duration
}

// Judgement is what the evidence proves.
type Judgement struct {
	// Admitted counts the admissions of removals of available pods, Legal those that the model explains.
	Admitted, Legal int
	// Removals is how many available pods were removed. OverAdmissions is how many of them left fewer available
	// pods than the floor, in whatever order of the cells; MinAvailable the fewest over all cells.
	Removals, OverAdmissions, MinAvailable int
	// Dropped is how many pods stopped being available by themselves, or by the scenario.
	Dropped int
	// Unreviewed counts the requests that were refused because no webhook could be asked.
	Unreviewed int
	// Illegal describes each admission that no order explains, and each removal in a silence.
	Illegal []string
	// Timeline is the number of available pods in the order that was judged.
	Timeline []storm.Point
}

// Validate judges. Where no pod becomes available in a storm, the total only falls, whatever the order across
// cells, so each count is exact. Otherwise it takes, of all orders that the facts' bounds allow, the one with the
// fewest over-admissions: what it reports is certain (storm.Judge). The bounds are those of linearizable reads
// some milliseconds apart, so little hides between them.
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
	ruling := rule(budget, operationsOf(evidence.Asks, evidence.Truths))
	judgement.Admitted, judgement.Illegal = ruling.admitted, ruling.illegal
	judgement.Illegal = append(judgement.Illegal, evidence.broken()...)
	judgement.Legal = ruling.admitted - len(judgement.Illegal)
	judgement.Timeline = verdict.Timeline
	for _, ask := range evidence.Asks {
		if strings.Contains(ask.Error, uncalled) {
			judgement.Unreviewed++
		}
	}
	return judgement
}

// uncalled is what an apiserver says when it could not ask a webhook.
const uncalled = "failed calling webhook"

// broken describes the removals that certainly came in a silence: an apiserver gives a request up after its timeout.
func (e Evidence) broken() []string {
	var found []string
	for _, silence := range e.Silences {
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
