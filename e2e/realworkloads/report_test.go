package realworkloads_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// reportFolder is the folder of report.json, and of shapes.txt with a line of each shape, which make e2e prints.
const reportFolder = "../../real-workloads-report"

// results are the results of this process.
var results report

// report has the results of the tests that ran. It is written as a flat object, so that scripts can read it easily.
type report struct {
	mu     sync.Mutex
	shapes []*shapeResult
	// recoveredPercent is the share of the StatefulSets that are whole again, relabelOverAdmissions the number of pods that left their
	// protector below its floor. They are nil if their tests did not run.
	recoveredPercent      *float64
	relabelOverAdmissions *int
}

// shapeResult is the result of one shape. Its floor and its number of expected pods are those of the last step.
type shapeResult struct {
	Shape                            string
	Expected, Floor                  string
	WrongFloors                      int
	Deleted, Survived, Unprotected   int
	RightExpected, RightFloor, Claim string
}

func (r *report) add(s *shapeResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shapes = append(r.shapes, s)
}

// observe records the floor after a step.
func (r *shapeResult) observe(s *step, p *v1alpha1.PodProtector) {
	r.Claim, r.Expected, r.Floor = s.Claim, expectedOf(p), fmt.Sprint(p.Status.DesiredAvailable)
	r.RightExpected, r.RightFloor = fmt.Sprint(s.Expected), fmt.Sprint(s.Floor)
}

// String returns the result as one line.
func (r *shapeResult) String() string {
	return fmt.Sprintf("%s: expected %s of %s, floor %s of %s, wrong floors %d, deleted %d, survived %d, below the floor %d",
		r.Shape, r.Expected, r.RightExpected, r.Floor, r.RightFloor, r.WrongFloors, r.Deleted, r.Survived, r.Unprotected)
}

// table returns the results of the shapes, one in a line.
func (r *report) table() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SHAPE\tEXPECTED\tRIGHT\tFLOOR\tRIGHT\tWRONG\tDELETED\tSURVIVED\tBELOW FLOOR")
	for _, s := range r.shapes {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\n",
			s.Shape, s.Expected, s.RightExpected, s.Floor, s.RightFloor, s.WrongFloors, s.Deleted, s.Survived, s.Unprotected)
	}
	_ = w.Flush() // a strings.Builder returns no error
	return text.String()
}

// save writes the report, unless no test ran.
func (r *report) save() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(r.shapes, func(a, b *shapeResult) int { return cmp.Compare(a.Shape, b.Shape) })
	values := map[string]any{}
	if len(r.shapes) > 0 {
		wrong, unprotected := 0, 0
		for _, s := range r.shapes {
			wrong, unprotected = wrong+s.WrongFloors, unprotected+s.Unprotected
		}
		values["shapes"], values["wrong_floors"], values["unprotected_pods_deleted"] = len(r.shapes), wrong, unprotected
	}
	if r.recoveredPercent != nil {
		values["recovered_statefulsets_pct"] = *r.recoveredPercent
	}
	if r.relabelOverAdmissions != nil {
		values["relabel_status_over_admissions"] = *r.relabelOverAdmissions
	}
	if len(values) == 0 {
		return nil
	}
	raw, err := json.MarshalIndent(values, "", "  ")
	if err != nil {
		return err
	}
	fmt.Print(r.table())
	if err := os.MkdirAll(reportFolder, 0o750); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(reportFolder, "shapes.txt"), []byte(r.table()), 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(reportFolder, "report.json"), append(raw, '\n'), 0o600)
}
