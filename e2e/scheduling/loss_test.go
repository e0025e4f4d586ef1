package scheduling_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// inZone is how refusals name a zone.
func inZone(name string) string { return fmt.Sprintf("domain %q of topology.kubernetes.io/zone", name) }

// ways are those to remove a pod.
func ways(l *lab) map[string]func(storm.Cell, string) error {
	return map[string]func(storm.Cell, string) error{"delete": l.Remove, "evict": l.Evict}
}

// wantLoss checks that neither way to remove a pod of a zone goes, by what would be left without a domain. The webhook that answers may hear of
// the last count a moment after us: until then it refuses by what was counted before.
func wantLoss(l *lab, cell storm.Cell, zone string, left int, without string, words ...string) {
	l.Helper()
	words = append(words, fmt.Sprintf("would be sure of no more than %d pods if %s were lost", left, without), "tolerateDomainLoss", v1alpha1.AnnotationForceDelete)
	for name, way := range ways(l) {
		l.Eventually(func() string {
			err := way(cell, oneIn(l, cell, zone))
			l.WantRefusal(err)
			for _, word := range words {
				if !strings.Contains(err.Error(), word) {
					return fmt.Sprintf("the refusal to %s does not say %q: %v", name, word, err)
				}
			}
			return ""
		})
	}
}

// goes removes a pod of a zone. Until earlier removals are counted it may be refused.
func goes(l *lab, way func(storm.Cell, string) error, cell storm.Cell, zone string) {
	l.Helper()
	pod := oneIn(l, cell, zone)
	l.Eventually(func() string { return e2e.Word(way(cell, pod)) })
}

func TestTheLossOfAZone(t *testing.T) {
	claim(t, "pods go where there are most, by deletion and eviction in either cell, until the floor would not outlive the loss of another zone", func(l *lab) {
		l.Protect(4, spreadBy(zones(outliving)))
		for _, cell := range l.Cells {
			place(l, cell, layout{"a": 2, "b": 1, "c": 1})
		}
		awaitCounted(l, layout{"a": 4, "b": 2, "c": 2})
		for _, cell := range l.Cells {
			for _, zone := range []string{"b", "c"} {
				wantLoss(l, cell, zone, 3, inZone("a"), "which has up to 4", "floor 4, available 8")
			}
		}
		goes(l, l.Remove, here(l), "a")
		goes(l, l.Evict, elsewhere(l), "a")
		p := awaitCounted(l, layout{"a": 2, "b": 2, "c": 2})
		if p.Status.Spread == nil || p.Status.Spread.AvailableAfterLoss != 4 {
			l.Errorf("the protector says %+v, want 4 pods to be left after a loss", p.Status.Spread)
		}
		for zone, without := range map[string]string{"a": "b", "b": "a", "c": "a"} {
			wantLoss(l, here(l), zone, 3, inZone(without), "which has up to 2", "available 6")
		}

		forced := oneIn(l, here(l), "b")
		annotate(l, here(l), forced, v1alpha1.AnnotationForceDelete)
		l.Must(l.Remove(here(l), forced))
		awaitCounted(l, layout{"a": 2, "b": 1, "c": 2})
		wantLoss(l, elsewhere(l), "b", 2, inZone("a"), "available 5")
	})
}

func TestTheLossOfACell(t *testing.T) {
	claim(t, "pods go from the cell that has more of them, and none from the other one, whose loss the floor outlives anyway", func(l *lab) {
		l.Protect(4, spreadBy(zones(outliving, byCell)))
		place(l, here(l), layout{"a": 6})
		place(l, elsewhere(l), layout{"a": 4})
		more, fewer := here(l).Name, elsewhere(l).Name
		awaitCounted(l, layout{more: 6, fewer: 4})
		wantLoss(l, elsewhere(l), "a", 3, fmt.Sprintf("cell %q", more), "which has up to 6", "floor 4, available 10")
		goes(l, l.Remove, here(l), "a")
		goes(l, l.Evict, here(l), "a")
		awaitCounted(l, layout{more: 4, fewer: 4})
		wantLoss(l, here(l), "a", 3, fmt.Sprintf("cell %q", fewer), "available 8")
		wantLoss(l, elsewhere(l), "a", 3, fmt.Sprintf("cell %q", more), "available 8")
	})
}

func TestToOutliveALossIsAskedLater(t *testing.T) {
	claim(t, "a protector whose pods run can be made to outlive the loss of a zone, and not to", func(l *lab) {
		l.Protect(4)
		place(l, here(l), layout{"a": 5, "b": 3, "c": 2})
		l.AwaitSummary(e2e.AllAvailable(10))
		goes(l, l.Remove, here(l), "b")
		l.AwaitSummary(e2e.AllAvailable(9))
		respread(l, zones(outliving))
		awaitCounted(l, layout{"a": 5, "b": 2, "c": 2})
		wantLoss(l, here(l), "c", 3, inZone("a"), "which has up to 5")
		goes(l, l.Remove, here(l), "a")
		awaitCounted(l, layout{"a": 4, "b": 2, "c": 2})

		generation := respread(l, zones())
		l.Eventually(func() string { // webhooks may hear of it a moment later
			err := l.Remove(here(l), oneIn(l, here(l), "c"))
			if err != nil && !strings.Contains(err.Error(), "were lost") {
				l.Fatalf("a removal under generation %d: %v", generation, err)
			}
			return e2e.Word(err)
		})
	})
}

// tempest is a storm on all pods, whose protector must outlive any loss.
type tempest struct {
	spread          *v1alpha1.Spread
	floor           int
	here, elsewhere layout
	// without are the pods that must outlive the loss of each domain.
	without func(l *lab) map[string]storm.Scope
	// domains tells where pods are, and which domain a pod of a zone is in.
	domains func(l *lab) layout
	domain  func(cell, zone string) string
}

func scope(l *lab, selector string, cells ...storm.Cell) storm.Scope {
	return storm.Scope{Cells: cells, Namespace: l.Namespace, Selector: "app=web" + selector}
}

func TestStormsOnPodsThatMustOutliveALoss(t *testing.T) {
	for name, w := range map[string]tempest{
		"zones": {
			spread: zones(outliving), floor: 8, here: layout{"a": 10, "b": 6, "c": 2}, elsewhere: layout{"a": 6, "b": 2, "c": 6},
			without: func(l *lab) map[string]storm.Scope {
				lost := map[string]storm.Scope{}
				for _, zone := range []string{"a", "b", "c"} {
					lost["zone "+zone] = scope(l, ","+zoneLabel+"!="+zone, l.Cells...)
				}
				return lost
			},
			domains: func(l *lab) layout { byZones, _ := living(l); return byZones },
			domain:  func(_, zone string) string { return zone },
		},
		"cells": {
			spread: zones(outliving, byCell), floor: 6, here: layout{"a": 10, "b": 6}, elsewhere: layout{"a": 8},
			without: func(l *lab) map[string]storm.Scope {
				return map[string]storm.Scope{"cell " + here(l).Name: scope(l, "", elsewhere(l)), "cell " + elsewhere(l).Name: scope(l, "", here(l))}
			},
			domains: func(l *lab) layout { _, byCells := living(l); return byCells },
			domain:  func(cell, _ string) string { return cell },
		},
	} {
		t.Run(name, func(t *testing.T) {
			claim(t, "deletecollection, deletions and evictions leave more than the floor at every time, whichever domain is taken for lost, and no more than that must be", w.rage)
		})
	}
}

func (w tempest) rage(l *lab) {
	l.Protect(w.floor, spreadBy(w.spread))
	place(l, here(l), w.here)
	place(l, elsewhere(l), w.elsewhere)
	landed(l, here(l), "web", w.here.pods())
	landed(l, elsewhere(l), "web", w.elsewhere.pods())
	awaitCounted(l, w.domains(l))
	all, err := storm.StartRecorder(l.Context(), scope(l, "", l.Cells...), storm.RecorderOptions{})
	l.Must(err)
	defer all.Stop()
	lost := map[string]*storm.Recorder{}
	for domain, rest := range w.without(l) {
		lost[domain], err = storm.StartRecorder(l.Context(), rest, storm.RecorderOptions{})
		l.Must(err)
		defer lost[domain].Stop()
	}
	gale := storm.New(
		storm.Wave{Attack: storm.RandomDeletes{Recorder: all, Clients: 8, Each: 20, Seed: 20261122}, For: e2e.Patience},
		storm.Wave{Attack: storm.EvictionWave{Recorder: all, Clients: 4, Seed: 20261122}, For: e2e.Patience},
		storm.Wave{Attack: storm.DeleteCollection{Scope: scope(l, "", l.Cells...), Times: 10}, For: e2e.Patience},
	)
	l.Must(gale.Run(l.Context()))
	w.wantUsable(l)

	for domain, recorder := range lost {
		if verdict := storm.Judge(recorder.Record(), w.floor); verdict.OverAdmissions != 0 || verdict.MinAvailable < w.floor || verdict.Removals == 0 {
			l.Errorf("without %s there were %d at least, after %d removals, %d over-admissions; the floor is %d",
				domain, verdict.MinAvailable, verdict.Removals, verdict.OverAdmissions, w.floor)
		}
	}
	at := w.domains(l)
	for domain := range at {
		if rest := at.pods() - at[domain]; rest < w.floor {
			l.Errorf("without %s %d pods are left of %v, the floor is %d", domain, rest, at, w.floor)
		}
	}
	if counts := gale.Counts(); counts.Refused == 0 {
		l.Errorf("the storm proved nothing: %+v", counts)
	}
	l.Logf("%+v left %v", gale.Counts(), at)
}

// may tells whether a pod of a domain can be spared.
func (w tempest) may(at layout, domain string) bool {
	for other := range at {
		if other != domain && at.pods()-at[other]-1 < w.floor {
			return false
		}
	}
	return at.pods() > w.floor
}

// wantUsable removes what the storm has left over, and checks that all else is refused.
func (w tempest) wantUsable(l *lab) {
	l.Helper()
	each := func(do func(cell storm.Cell, pod, domain string)) {
		for _, cell := range l.Cells {
			for _, pod := range l.Pods(cell) {
				do(cell, pod.Name, w.domain(cell.Name, pod.Labels[zoneLabel]))
			}
		}
	}
	l.Eventually(func() string {
		var left error
		each(func(cell storm.Cell, pod, domain string) {
			if at := w.domains(l); w.may(at, domain) {
				left = errors.Join(left, fmt.Errorf("%s can be spared of %v", pod, at), l.Remove(cell, pod))
			}
		})
		return e2e.Word(left)
	})
	at := awaitTruth(l, w)
	each(func(cell storm.Cell, pod, _ string) { l.WantRefusal(l.Remove(cell, pod)) })
	if diff := cmp.Diff(at, w.domains(l)); diff != "" {
		l.Errorf("pods by domain (-before +after all were refused):\n%s", diff)
	}
}

// awaitTruth waits until what is counted is what there is.
func awaitTruth(l *lab, w tempest) layout {
	l.Helper()
	at := w.domains(l)
	awaitCounted(l, at)
	return at
}
