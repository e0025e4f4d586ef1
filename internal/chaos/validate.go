package chaos

import (
	"time"

	"github.com/breakwater-k8s/breakwater/internal/storm"
)

// Evidence is all that is known of a scenario, and nothing of it from Breakwater.
type Evidence struct {
	Floor  int
	Truths []Truth
	Asks   []Ask
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
	// Illegal describes each admission that no order explains.
	Illegal []string
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
	judgement.Legal = ruling.admitted - len(ruling.illegal)
	return judgement
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
