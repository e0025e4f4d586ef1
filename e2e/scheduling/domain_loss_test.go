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
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
)

// zoneText returns the text by which denials name a zone.
func zoneText(name string) string {
	return fmt.Sprintf("domain %q of topology.kubernetes.io/zone", name)
}

// removalMethods returns the functions that remove a pod, by name.
func removalMethods(l *fixture) map[string]func(storm.Cell, string) error {
	return map[string]func(storm.Cell, string) error{"delete": l.DeletePod, "evict": l.EvictPod}
}

// expectDomainLossDenial checks that deletion and eviction of a pod of a zone are denied, because too few pods (left) would remain if the given
// domain (without) were lost. The webhook that answers may receive the last count later than the test. Until then its denial has the previous
// count.
func expectDomainLossDenial(l *fixture, cell storm.Cell, zone string, left int, without string, fragments ...string) {
	l.Helper()
	fragments = append(fragments, fmt.Sprintf("could be left with only %s if %s were lost", printable.Count(left, "pod"), without), "tolerateDomainLoss", v1alpha1.AnnotationForceDelete)
	for name, way := range removalMethods(l) {
		l.Eventually(func() string {
			err := way(cell, anyPodInZone(l, cell, zone))
			l.ExpectDenial(err)
			for _, fragment := range fragments {
				if !strings.Contains(err.Error(), fragment) {
					return fmt.Sprintf("the denial of %s does not contain %q: %v", name, fragment, err)
				}
			}
			return ""
		})
	}
}

// removeFromZone removes a pod of a zone. It retries, because the webhook may deny the removal until earlier removals are counted.
func removeFromZone(l *fixture, remove func(storm.Cell, string) error, cell storm.Cell, zone string) {
	l.Helper()
	pod := anyPodInZone(l, cell, zone)
	l.Eventually(func() string { return e2e.ErrorText(remove(cell, pod)) })
}

func TestZoneLoss(t *testing.T) {
	claim(t, "pods of the largest zones can be removed in both cells until the floor would not survive the loss of another zone", func(l *fixture) {
		l.CreateProtector(4, spreadBy(zoneSpread(tolerateLoss)))
		for _, cell := range l.Cells {
			createPodsInZones(l, cell, podsByDomain{"a": 2, "b": 1, "c": 1})
		}
		waitForCounted(l, podsByDomain{"a": 4, "b": 2, "c": 2})
		for _, cell := range l.Cells {
			for _, zone := range []string{"b", "c"} {
				expectDomainLossDenial(l, cell, zone, 3, zoneText("a"), "which has up to 4", "floor 4, available 8")
			}
		}
		removeFromZone(l, l.DeletePod, here(l), "a")
		removeFromZone(l, l.EvictPod, elsewhere(l), "a")
		p := waitForCounted(l, podsByDomain{"a": 2, "b": 2, "c": 2})
		if p.Status.Spread == nil || p.Status.Spread.AvailableAfterLoss != 4 {
			l.Errorf("got %+v, want 4 pods left after a loss", p.Status.Spread)
		}
		for zone, without := range map[string]string{"a": "b", "b": "a", "c": "a"} {
			expectDomainLossDenial(l, here(l), zone, 3, zoneText(without), "which has up to 2", "available 6")
		}

		forced := anyPodInZone(l, here(l), "b")
		annotatePod(l, here(l), forced, v1alpha1.AnnotationForceDelete)
		l.Must(l.DeletePod(here(l), forced))
		waitForCounted(l, podsByDomain{"a": 2, "b": 1, "c": 2})
		expectDomainLossDenial(l, elsewhere(l), "b", 2, zoneText("a"), "available 5")
	})
}

func TestCellLoss(t *testing.T) {
	claim(t, "only pods of the larger cell can be removed: the floor survives the loss of the other cell", func(l *fixture) {
		l.CreateProtector(4, spreadBy(zoneSpread(tolerateLoss, byCell)))
		createPodsInZones(l, here(l), podsByDomain{"a": 6})
		createPodsInZones(l, elsewhere(l), podsByDomain{"a": 4})
		more, fewer := here(l).Name, elsewhere(l).Name
		waitForCounted(l, podsByDomain{more: 6, fewer: 4})
		expectDomainLossDenial(l, elsewhere(l), "a", 3, fmt.Sprintf("cell %q", more), "which has up to 6", "floor 4, available 10")
		removeFromZone(l, l.DeletePod, here(l), "a")
		removeFromZone(l, l.EvictPod, here(l), "a")
		waitForCounted(l, podsByDomain{more: 4, fewer: 4})
		expectDomainLossDenial(l, here(l), "a", 3, fmt.Sprintf("cell %q", fewer), "available 8")
		expectDomainLossDenial(l, elsewhere(l), "a", 3, fmt.Sprintf("cell %q", more), "available 8")
	})
}

func TestLossToleranceAddedLater(t *testing.T) {
	claim(t, "tolerance of a zone loss can be enabled and disabled for running pods", func(l *fixture) {
		l.CreateProtector(4)
		createPodsInZones(l, here(l), podsByDomain{"a": 5, "b": 3, "c": 2})
		l.WaitForSummary(e2e.AllAvailable(10))
		removeFromZone(l, l.DeletePod, here(l), "b")
		l.WaitForSummary(e2e.AllAvailable(9))
		updateSpread(l, zoneSpread(tolerateLoss))
		waitForCounted(l, podsByDomain{"a": 5, "b": 2, "c": 2})
		expectDomainLossDenial(l, here(l), "c", 3, zoneText("a"), "which has up to 5")
		removeFromZone(l, l.DeletePod, here(l), "a")
		waitForCounted(l, podsByDomain{"a": 4, "b": 2, "c": 2})

		generation := updateSpread(l, zoneSpread())
		l.Eventually(func() string { // webhooks may receive the change later
			err := l.DeletePod(here(l), anyPodInZone(l, here(l), "c"))
			if err != nil && !strings.Contains(err.Error(), "were lost") {
				l.Fatalf("a removal under generation %d: %v", generation, err)
			}
			return e2e.ErrorText(err)
		})
	})
}

// domainLossStorm is a storm on all pods of a protector that must survive the loss of any domain.
type domainLossStorm struct {
	spread          *v1alpha1.Spread
	floor           int
	here, elsewhere podsByDomain
	// scopesWithoutDomain returns, for each domain, the pods that remain if it is lost.
	scopesWithoutDomain func(l *fixture) map[string]storm.Scope
	// podsPerDomain returns the number of pods in each domain, and domain returns the domain of a pod in a cell and zone.
	podsPerDomain func(l *fixture) podsByDomain
	domain        func(cell, zone string) string
}

func scope(l *fixture, selector string, cells ...storm.Cell) storm.Scope {
	return storm.Scope{Cells: cells, Namespace: l.Namespace, Selector: "app=web" + selector}
}

func TestStormsWithLossTolerance(t *testing.T) {
	for name, w := range map[string]domainLossStorm{
		"zones": {
			spread: zoneSpread(tolerateLoss), floor: 8, here: podsByDomain{"a": 10, "b": 6, "c": 2}, elsewhere: podsByDomain{"a": 6, "b": 2, "c": 6},
			scopesWithoutDomain: func(l *fixture) map[string]storm.Scope {
				lost := map[string]storm.Scope{}
				for _, zone := range []string{"a", "b", "c"} {
					lost["zone "+zone] = scope(l, ","+zoneLabel+"!="+zone, l.Cells...)
				}
				return lost
			},
			podsPerDomain: func(l *fixture) podsByDomain { byZones, _ := existingPods(l); return byZones },
			domain:        func(_, zone string) string { return zone },
		},
		"cells": {
			spread: zoneSpread(tolerateLoss, byCell), floor: 6, here: podsByDomain{"a": 10, "b": 6}, elsewhere: podsByDomain{"a": 8},
			scopesWithoutDomain: func(l *fixture) map[string]storm.Scope {
				return map[string]storm.Scope{"cell " + here(l).Name: scope(l, "", elsewhere(l)), "cell " + elsewhere(l).Name: scope(l, "", here(l))}
			},
			podsPerDomain: func(l *fixture) podsByDomain { _, byCells := existingPods(l); return byCells },
			domain:        func(cell, _ string) string { return cell },
		},
	} {
		t.Run(name, func(t *testing.T) {
			claim(t, "deletions and evictions keep the floor at all times without any one domain, and use the whole budget", w.runStorm)
		})
	}
}

func (w domainLossStorm) runStorm(l *fixture) {
	l.CreateProtector(w.floor, spreadBy(w.spread))
	createPodsInZones(l, here(l), w.here)
	createPodsInZones(l, elsewhere(l), w.elsewhere)
	waitForRunning(l, here(l), "web", w.here.total())
	waitForRunning(l, elsewhere(l), "web", w.elsewhere.total())
	waitForCounted(l, w.podsPerDomain(l))
	all, err := storm.StartRecorder(l.Context(), scope(l, "", l.Cells...), storm.RecorderOptions{})
	l.Must(err)
	defer all.Stop()
	lost := map[string]*storm.Recorder{}
	for domain, rest := range w.scopesWithoutDomain(l) {
		lost[domain], err = storm.StartRecorder(l.Context(), rest, storm.RecorderOptions{})
		l.Must(err)
		defer lost[domain].Stop()
	}
	load := storm.New(
		storm.Wave{Attack: storm.RandomDeletes{Recorder: all, Clients: 8, Each: 20, Seed: 20261122}, For: e2e.DefaultTimeout},
		storm.Wave{Attack: storm.EvictionWave{Recorder: all, Clients: 4, Seed: 20261122}, For: e2e.DefaultTimeout},
		storm.Wave{Attack: storm.DeleteCollection{Scope: scope(l, "", l.Cells...), Times: 10}, For: e2e.DefaultTimeout},
	)
	l.Must(load.Run(l.Context()))
	w.expectUsableBudget(l)

	for domain, recorder := range lost {
		if verdict := storm.Judge(recorder.Record(), w.floor); verdict.OverAdmissions != 0 || verdict.MinAvailable < w.floor || verdict.Removals == 0 {
			l.Errorf("without %s: lowest available %d, %d removals, %d over-admissions, want 0 over-admissions and a floor of %d",
				domain, verdict.MinAvailable, verdict.Removals, verdict.OverAdmissions, w.floor)
		}
	}
	at := w.podsPerDomain(l)
	for domain := range at {
		if rest := at.total() - at[domain]; rest < w.floor {
			l.Errorf("without %s %d pods of %v remain, want a floor of %d", domain, rest, at, w.floor)
		}
	}
	if counts := load.Counts(); counts.Denied == 0 {
		l.Errorf("got %+v, want both denials and removals", counts)
	}
	l.Logf("%+v left %v", load.Counts(), at)
}

// isRemovable reports whether a pod of a domain can be removed.
func (w domainLossStorm) isRemovable(at podsByDomain, domain string) bool {
	for other := range at {
		if other != domain && at.total()-at[other]-1 < w.floor {
			return false
		}
	}
	return at.total() > w.floor
}

// expectUsableBudget uses the budget that the storm left, and checks that all other removals are denied.
func (w domainLossStorm) expectUsableBudget(l *fixture) {
	l.Helper()
	each := func(do func(cell storm.Cell, pod, domain string)) {
		for _, cell := range l.Cells {
			for _, pod := range l.ExistingPods(cell) {
				do(cell, pod.Name, w.domain(cell.Name, pod.Labels[zoneLabel]))
			}
		}
	}
	l.Eventually(func() string {
		var left error
		each(func(cell storm.Cell, pod, domain string) {
			if at := w.podsPerDomain(l); w.isRemovable(at, domain) {
				left = errors.Join(left, fmt.Errorf("a pod of %s can be removed from %v", pod, at), l.DeletePod(cell, pod))
			}
		})
		return e2e.ErrorText(left)
	})
	at := waitForTrueCounts(l, w)
	each(func(cell storm.Cell, pod, _ string) { l.ExpectDenial(l.DeletePod(cell, pod)) })
	if diff := cmp.Diff(at, w.podsPerDomain(l)); diff != "" {
		l.Errorf("pods by domain after denials (-before +after):\n%s", diff)
	}
}

// waitForTrueCounts waits until the counts of the protector match the existing pods.
func waitForTrueCounts(l *fixture, w domainLossStorm) podsByDomain {
	l.Helper()
	at := w.podsPerDomain(l)
	waitForCounted(l, at)
	return at
}
