// Package report tells what a storm did to an application with and without Breakwater: as JSON, as a picture and
// as a page that needs nothing else to be read.
package report

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// Report compares two runs of the same storm.
type Report struct {
	// Floor is the number of pods, of Pods, that had to stay available.
	Floor    int       `json:"floor"`
	Pods     int       `json:"pods"`
	Clients  int       `json:"clients"`
	Seed     uint64    `json:"seed"`
	Cells    []string  `json:"cells"`
	Started  time.Time `json:"started"`
	Versions Versions  `json:"versions"`

	Unprotected Run `json:"unprotected"`
	Protected   Run `json:"protected"`
}

// Versions are those of what ran.
type Versions struct {
	Breakwater string `json:"breakwater"`
	Kubernetes string `json:"kubernetes"`
	Platform   string `json:"platform"`
}

// Run is one run of the storm.
type Run struct {
	// Counts are the storm's own requests. Those of the garbage collector, which carries out the cascade, are not
	// among them.
	storm.Counts
	// Removals is the number of available pods that were removed, by whomever; OverAdmissions how many of these
	// removals left fewer available pods than the floor.
	Removals       int `json:"removals"`
	OverAdmissions int `json:"overAdmissions"`
	// MinAvailable is the least number of available pods at any time, FinalAvailable the number when the storm was
	// over and nothing changed any more.
	MinAvailable   int `json:"minAvailable"`
	FinalAvailable int `json:"finalAvailable"`
	// DurationSeconds is from the beginning of the storm to that moment.
	DurationSeconds float64  `json:"durationSeconds"`
	PerAttack       []Attack `json:"perAttack"`
	// Recovery is what happened when the application was deployed again; absent in the run without Breakwater.
	Recovery *Recovery `json:"recovery,omitempty"`
	// Refusal is the first answer that refused a removal, in full.
	Refusal  string  `json:"refusal,omitempty"`
	Timeline []Point `json:"timeline"`
	// Ledger is what the protector said, whenever that had changed; absent in the run without Breakwater.
	Ledger []Entry `json:"ledger,omitempty"`
}

// Entry is what the protector said at one time, and how many requests of the storm had been answered by then.
type Entry struct {
	Seconds float64 `json:"seconds"`
	// Counted and Reserved are the available pods that the cells have counted, and the open reservations, by cell.
	Counted  []int `json:"counted"`
	Reserved []int `json:"reserved"`
	// Allowed is how many removals would be admitted.
	Allowed int `json:"allowed"`
	// Admitted and Refused are requests since the storm began.
	Admitted int `json:"admitted"`
	Refused  int `json:"refused"`
}

// Attack is one attack of the storm. Seconds count from the beginning of the run's timeline.
type Attack struct {
	Name         string  `json:"name"`
	BeginSeconds float64 `json:"beginSeconds"`
	EndSeconds   float64 `json:"endSeconds"`
	storm.Counts
}

// Recovery tells whether budget became usable again once there were more pods than the floor.
type Recovery struct {
	// BeginSeconds is when the application was deployed again, on the run's timeline.
	BeginSeconds float64 `json:"beginSeconds"`
	// UsableAfterSeconds is from the moment at which more pods than the floor were available to the first
	// removal that was admitted.
	UsableAfterSeconds float64 `json:"usableAfterSeconds"`
	// Available is the number of available pods some seconds later.
	Available int `json:"available"`
}

// Point is the number of available pods at one time, in all and by cell.
type Point struct {
	Seconds float64 `json:"seconds"`
	Total   int     `json:"total"`
	Cells   []int   `json:"cells"`
}

// Seconds rounds a time to milliseconds: what is below is noise.
func Seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// Timeline converts points.
func Timeline(points []storm.Point) []Point {
	timeline := make([]Point, 0, len(points))
	for _, p := range points {
		timeline = append(timeline, Point{Seconds: Seconds(p.At), Total: p.Total, Cells: p.Cells})
	}
	return timeline
}

// Held tells whether Breakwater kept the floor.
func (r Report) Held() bool {
	return r.Protected.OverAdmissions == 0 && r.Protected.MinAvailable >= r.Floor
}

// Proves tells whether the storm would have broken the floor: one that does not proves nothing.
func (r Report) Proves() bool { return r.Unprotected.MinAvailable < r.Floor }

// Outcome is the report in one sentence.
func (r Report) Outcome() string {
	switch {
	case !r.Proves():
		return fmt.Sprintf("The storm proved nothing: without Breakwater at least %d pods stayed available, and the floor is %d.",
			r.Unprotected.MinAvailable, r.Floor)
	case !r.Held():
		return fmt.Sprintf("The floor was broken: with Breakwater only %d pods stayed available, the floor is %d; %d removals were admitted below it.",
			r.Protected.MinAvailable, r.Floor, r.Protected.OverAdmissions)
	}
	return fmt.Sprintf("The floor held: with Breakwater never fewer than %d of %d pods were available, the floor is %d. "+
		"Without it the same storm left %d.", r.Protected.MinAvailable, r.Pods, r.Floor, r.Unprotected.MinAvailable)
}

// JSON renders the report for programs.
func (r Report) JSON() ([]byte, error) {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(raw, '\n'), nil
}

// at gives the number of available pods at a time of the timeline.
func (r Run) at(seconds float64) (total int, ok bool) {
	for _, p := range r.Timeline {
		if p.Seconds > seconds {
			break
		}
		total, ok = p.Total, true
	}
	return total, ok
}

// end is the last time of the timeline.
func (r Run) end() float64 {
	if len(r.Timeline) == 0 {
		return 0
	}
	return r.Timeline[len(r.Timeline)-1].Seconds
}
