package status_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

func TestAlarmsOf(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	set := func(kind string, is metav1.ConditionStatus) func(*v1alpha1.Cell) {
		return func(c *v1alpha1.Cell) {
			c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: kind, Status: is, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))})
		}
	}
	heard := func(ago time.Duration) func(*v1alpha1.Cell) {
		at := metav1.NewMicroTime(now.Add(-ago))
		return func(c *v1alpha1.Cell) { c.Status.Aggregator.LastHeartbeat = &at }
	}
	discount := func(c *v1alpha1.Cell) { c.Spec.WhenStale = v1alpha1.WhenStaleDiscount }
	fresh := heard(time.Second)
	for claim, c := range map[string]struct {
		changes []func(*v1alpha1.Cell)
		want    []status.AlarmKind
		says    string
	}{
		"all is well":                     {[]func(*v1alpha1.Cell){fresh, set(v1alpha1.ConditionGuarded, "True"), set(v1alpha1.ConditionConnected, "True")}, nil, ""},
		"nothing was asked for":           {[]func(*v1alpha1.Cell){fresh, set(v1alpha1.ConditionGuarded, "Unknown"), set(v1alpha1.ConditionConnected, "Unknown")}, nil, ""},
		"the webhook is not called":       {[]func(*v1alpha1.Cell){fresh, set(v1alpha1.ConditionGuarded, "False")}, []status.AlarmKind{status.AlarmUnguarded}, "Removals in worker-1 are not checked"},
		"the webhook is down":             {[]func(*v1alpha1.Cell){fresh, set(v1alpha1.ConditionGuarded, "True"), set(v1alpha1.ConditionWebhookAvailable, "False")}, []status.AlarmKind{status.AlarmWebhookDown}, "no replica of the webhook is ready"},
		"it is unknown whether it runs":   {[]func(*v1alpha1.Cell){fresh, set(v1alpha1.ConditionWebhookAvailable, "Unknown")}, nil, ""},
		"no aggregator has counted":       {nil, []status.AlarmKind{status.AlarmNeverReported}, "All removals of protected pods in worker-1 are denied"},
		"the aggregator is silent":        {[]func(*v1alpha1.Cell){heard(time.Hour)}, []status.AlarmKind{status.AlarmStale}, "decided by old counts of worker-1"},
		"its pods do not count elsewhere": {[]func(*v1alpha1.Cell){heard(time.Hour), discount}, []status.AlarmKind{status.AlarmStale}, "count for no other cell"},
		"the aggregator has stopped":      {[]func(*v1alpha1.Cell){fresh, set(v1alpha1.ConditionReady, "False")}, []status.AlarmKind{status.AlarmStale}, "budgets only shrink"},
		"the cluster cannot be inspected": {[]func(*v1alpha1.Cell){fresh, set(v1alpha1.ConditionConnected, "False")}, []status.AlarmKind{status.AlarmGuardUnknown}, "unknown whether removals in worker-1"},
		"the configuration cannot be read": {
			[]func(*v1alpha1.Cell){fresh, set(v1alpha1.ConditionConnected, "True"), func(c *v1alpha1.Cell) {
				set(v1alpha1.ConditionGuarded, "Unknown")(c)
				c.Status.Conditions[1].Reason = v1alpha1.ReasonConfigurationUnread
			}},
			[]status.AlarmKind{status.AlarmGuardUnknown}, "unknown whether removals in worker-1",
		},
		"the worst comes first": {
			[]func(*v1alpha1.Cell){heard(time.Hour), set(v1alpha1.ConditionGuarded, "False"), set(v1alpha1.ConditionConnected, "False")},
			[]status.AlarmKind{status.AlarmUnguarded, status.AlarmStale}, "not checked",
		},
	} {
		t.Run(claim, func(t *testing.T) {
			cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}}
			for _, change := range c.changes {
				change(cell)
			}
			view := status.OfCell("core", cell, now)
			var got []status.AlarmKind
			text := ""
			for _, a := range status.AlarmsOf(&view) {
				got = append(got, a.Kind)
				text += a.Consequence + " "
				if a.Runbook == "" || a.Cell != "worker-1" || a.Core != "core" || strings.Contains(a.Consequence, "CELL") {
					t.Errorf("alarm %+v is incomplete", a)
				}
			}
			if !slices.Equal(got, c.want) || !strings.Contains(text, c.says) {
				t.Errorf("AlarmsOf() = %v %q, want %v that say %q", got, text, c.want, c.says)
			}
		})
	}
}

func TestAlarmsOfCoresAreSortedWithThoseOfCells(t *testing.T) {
	alarms := []status.Alarm{{Kind: status.AlarmStale, Cell: "b"}, {Kind: status.AlarmStale, Cell: "a"}, status.CoreAlarm("core", nil), {Kind: status.AlarmUnguarded, Cell: "c"}}
	slices.SortFunc(alarms, status.CompareAlarms)
	var got []string
	for _, a := range alarms {
		got = append(got, string(a.Kind)+a.Cell)
	}
	if want := []string{"unguardedc", "coreUnreachable", "stalea", "staleb"}; !slices.Equal(got, want) {
		t.Errorf("CompareAlarms sorts %v, want %v", got, want)
	}
}

// What an alarm shows, an alert reports: both link to the same runbook, which names its alert in its title.
func TestEachAlarmHasAnAlert(t *testing.T) {
	alerts, err := os.ReadFile("../../../charts/breakwater/files/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cell := &status.Cell{Guarded: "False", Connected: "False"}
	alarms := append(status.AlarmsOf(cell), status.CoreAlarm("core", nil))
	cell.Guarded, cell.Stale, cell.Heard = "Unknown", true, &time.Time{}
	kinds := map[status.AlarmKind]bool{}
	for _, alarm := range append(alarms, status.AlarmsOf(cell)...) {
		kinds[alarm.Kind] = true
		page, err := os.ReadFile(filepath.Join("../../../docs/runbooks", alarm.Runbook+".md"))
		title, _, _ := strings.Cut(strings.TrimPrefix(string(page), "# "), "\n")
		if err != nil || !strings.Contains(string(alerts), "- alert: "+title+"\n") {
			t.Errorf("alarm %s: the runbook %s is of the alert %q, which is none (%v)", alarm.Kind, alarm.Runbook, title, err)
		}
	}
	if len(kinds) != 5 {
		t.Errorf("the test has the alarms %v, want each kind", kinds)
	}
}
