// Package report reports the effect of a storm on an application with and without Breakwater: as JSON, as an SVG and
// as a table.
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

// Versions are the versions of the programs.
type Versions struct {
	Breakwater string `json:"breakwater"`
	Kubernetes string `json:"kubernetes"`
	Platform   string `json:"platform"`
}

// Run is one run of the storm.
type Run struct {
	// Counts are the storm's own requests. They do not include requests of the garbage collector, which executes the
	// cascade.
	storm.Counts
	// Removals is the number of available pods that were removed by any client. OverAdmissions is how many of these
	// removals left fewer available pods than the floor.
	Removals       int `json:"removals"`
	OverAdmissions int `json:"overAdmissions"`
	// MinAvailable is the minimum of available pods at any time, FinalAvailable the number after the storm, when
	// changes had stopped.
	MinAvailable   int `json:"minAvailable"`
	FinalAvailable int `json:"finalAvailable"`
	// DurationSeconds is the time from the start of the storm until then.
	DurationSeconds float64  `json:"durationSeconds"`
	PerAttack       []Attack `json:"perAttack"`
	// Recovery describes the redeployment of the application. It is nil in the run without Breakwater.
	Recovery *Recovery `json:"recovery,omitempty"`
	// Denial is the full message of the first denial.
	Denial   string  `json:"refusal,omitempty"`
	Timeline []Point `json:"timeline"`
}

// Attack is one attack of the storm. Seconds count from the beginning of the run's timeline.
type Attack struct {
	Name         string  `json:"name"`
	BeginSeconds float64 `json:"beginSeconds"`
	EndSeconds   float64 `json:"endSeconds"`
	storm.Counts
}

// Recovery reports whether budget became usable again once there were more pods than the floor.
type Recovery struct {
	// BeginSeconds is the time of the redeployment on the run's timeline.
	BeginSeconds float64 `json:"beginSeconds"`
	// UsableAfterSeconds is the time from when more pods than the floor were available until the first admitted
	// removal.
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

// Seconds converts a duration to seconds, rounded to milliseconds.
func Seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// Timeline converts points.
func Timeline(points []storm.Point) []Point {
	timeline := make([]Point, 0, len(points))
	for _, p := range points {
		timeline = append(timeline, Point{Seconds: Seconds(p.At), Total: p.Total, Cells: p.Cells})
	}
	return timeline
}

// Held reports whether Breakwater kept the floor.
func (r Report) Held() bool {
	return r.Protected.OverAdmissions == 0 && r.Protected.MinAvailable >= r.Floor
}

// Proves reports whether the storm broke the floor without Breakwater. Otherwise it proves nothing.
func (r Report) Proves() bool { return r.Unprotected.MinAvailable < r.Floor }

// Outcome returns the report in one sentence.
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
