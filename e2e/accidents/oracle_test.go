package accidents_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/e2e/harness/plot"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// reportFolder is the folder of report.json and a picture of each accident.
const reportFolder = root + "accidents-report"

// report has the results of the accidents in one or several topologies. It is flat, so that scripts can read it easily.
type report struct {
	// FloorsHeldMin is the lowest share of floors in force after any accident.
	FloorsHeldMin float64 `json:"floors_held_min"`
	// PodsBelowFloor is the number of pods missing to the floor, summed over all accidents and services.
	PodsBelowFloor int `json:"pods_below_floor"`
	// SingleTeardownSeconds is the time from the deletion of one Deployment until its protector and its pods are deleted.
	SingleTeardownSeconds float64             `json:"single_teardown_s"`
	Workloads             int                 `json:"workloads"`
	Accidents             map[string]accident `json:"accidents"`
	Teardowns             map[string]float64  `json:"teardown_s"`

	topology string
}

// accident is the result of one accident.
type accident struct {
	FloorsHeld     float64 `json:"floors_held"`
	PodsBelowFloor int     `json:"pods_below_floor"`
	Removed        int     `json:"pods_removed"`
}

// podOracle watches the pods of each service independently of Breakwater.
type podOracle struct {
	*fixture
	recorders []*storm.Recorder
}

func (s *fixture) watchPods() *podOracle {
	s.Helper()
	o := &podOracle{fixture: s}
	for _, of := range s.services {
		r, err := storm.StartRecorder(s.Context(), storm.Scope{Cells: s.Cells, Namespace: of.namespace, Selector: "app=" + of.name}, storm.RecorderOptions{})
		s.Must(err)
		s.Cleanup(func() { r.Stop() })
		o.recorders = append(o.recorders, r)
	}
	return o
}

// judgeSince stops the recorders and judges their records. It draws the timeline of the service with the fewest available pods.
func (o *podOracle) judgeSince(name string) (below, removed int) {
	o.Helper()
	var worst *storm.Verdict
	for i, r := range o.recorders {
		for _, err := range r.StreamErrors() {
			o.Errorf("the recorder of %v failed: %v", o.services[i], err)
		}
		verdict := storm.Judge(r.Stop(), floor)
		below += max(0, floor-verdict.MinAvailable)
		removed += verdict.Removals
		if verdict.OverAdmissions > 0 {
			o.Errorf("%s: %d removals were admitted below the floor of %v, which had %d of %d pods left",
				name, verdict.OverAdmissions, o.services[i], verdict.MinAvailable, replicas)
		}
		if worst == nil || verdict.MinAvailable < worst.MinAvailable {
			worst = &verdict
		}
	}
	o.drawTimeline(fmt.Sprintf("%s-%s", o.Federation().Topology().Name, name), worst.Timeline)
	return below, removed
}

func (o *podOracle) drawTimeline(name string, timeline []storm.Point) {
	o.Helper()
	line := plot.Line{Class: "with", Name: "the service with the fewest available pods"}
	for _, p := range timeline {
		line.Points = append(line.Points, plot.Point{Seconds: p.At.Seconds(), Total: p.Total})
	}
	picture := &plot.Chart{
		Title: "Available pods in the accident " + name, Description: "Available pods over time of the service with the fewest, and its floor.",
		Width: 960, Height: 360, Floor: floor, Pods: replicas, Lines: []plot.Line{line},
	}
	o.Must(os.MkdirAll(reportFolder, 0o750))
	o.Must(os.WriteFile(filepath.Join(reportFolder, name+".svg"), []byte(picture.SVG()), 0o600))
}

// removeAllPods tries to delete every pod of every service once, with concurrent requests.
func (s *fixture) removeAllPods() {
	s.Helper()
	var running sync.WaitGroup
	slots := make(chan struct{}, 16)
	for _, of := range s.services {
		for _, cell := range s.Cells {
			pods, err := cell.Client.CoreV1().Pods(of.namespace).List(s.Context(), metav1.ListOptions{LabelSelector: "app=" + of.name})
			s.Must(err)
			for _, pod := range pods.Items {
				running.Go(func() {
					slots <- struct{}{}
					defer func() { <-slots }()
					// Most of the requests are denied. The oracle judges the result.
					_ = cell.Client.CoreV1().Pods(pod.Namespace).Delete(s.Context(), pod.Name, metav1.DeleteOptions{})
				})
			}
		}
	}
	running.Wait()
}

func newReport(topology string, s *fixture) *report {
	return &report{topology: topology, Workloads: len(s.services), Accidents: map[string]accident{}, Teardowns: map[string]float64{}}
}

// checkAccidents fails the test unless all floors are in force and no service has fewer pods than its floor.
func (r *report) checkAccidents(s *fixture) {
	s.Helper()
	for name, a := range r.Accidents {
		if a.FloorsHeld < 1 || a.PodsBelowFloor > 0 {
			s.Errorf("%s: got %+v, want all floors in force and no pod below its floor", name, a)
		}
	}
}

// saveReport adds the results to those of the other topologies that this process has tested, and writes the report.
func (r *report) saveReport() error {
	writtenReport.Lock()
	defer writtenReport.Unlock()
	all := &writtenReport.report
	if all.Accidents == nil {
		*all = report{FloorsHeldMin: 1, Workloads: r.Workloads, Accidents: map[string]accident{}, Teardowns: map[string]float64{}}
	}
	for name, a := range r.Accidents {
		all.Accidents[r.topology+"/"+name] = a
		all.FloorsHeldMin, all.PodsBelowFloor = min(all.FloorsHeldMin, a.FloorsHeld), all.PodsBelowFloor+a.PodsBelowFloor
	}
	maps.Copy(all.Teardowns, r.Teardowns)
	all.SingleTeardownSeconds = max(all.SingleTeardownSeconds, r.SingleTeardownSeconds)
	raw, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(reportFolder, 0o750); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(reportFolder, "report.json"), append(raw, '\n'), 0o600)
}

// writtenReport is the report of this process.
var writtenReport struct {
	sync.Mutex
	report report
}
