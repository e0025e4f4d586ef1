package aggregator

import (
	"testing"

	"github.com/breakwater-k8s/breakwater/aggregator/shares"
	"github.com/breakwater-k8s/breakwater/aggregator/versions"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// A core that is restored from a backup issues an epoch a second time. A leader of the lost history that has not noticed that
// it was deposed then writes with the same epoch as its successor, and may have seen a later state of the cell.
func TestOlderCountDoesNotReplaceNewerCountOfAnotherLeader(t *testing.T) {
	w := newSimulatedCell(1, 4)
	for range 5 {
		w.create(true)
	}
	w.lead()
	former := w.newest()
	w.aggregateNow(t)
	w.epoch--
	w.lead()
	if before, now := former.ownership.EpochOf("default"), w.newest().ownership.EpochOf("default"); before != now {
		t.Fatalf("epochs %d and %d, want the same", before, now)
	}
	w.review(w.pods["uid-1"], v1alpha1.OperationDelete)
	w.takeEffect(0, false)
	former.deliver(w.events, len(w.events))
	if err := w.beginAggregation(former); err != nil {
		t.Fatal(err)
	}
	w.finishAggregation(0)
	if budget := quota.BudgetOf(w.stored); budget.Available != 4 || budget.Reserved != 0 {
		t.Fatalf("the former leader counts %+v, want 4 available and nothing reserved", budget)
	}
	if got := w.aggregateNow(t); got != 4 {
		t.Errorf("%d available by the stream of the new leader, which lags; want 4", got)
	}
	if err := w.check(); err != nil {
		t.Error(err)
	}
}

// A share continues the counts of its protector, and these those of the share. Their aggregators watch the cell by different streams, and the next
// event of a stream may be a minute away.
func TestCountsOfAnotherStreamAreContinuedAtOnce(t *testing.T) {
	w := newSimulatedCell(1, 4)
	for range 5 {
		w.create(true)
	}
	w.lead()
	w.aggregateNow(t)
	fellIll := w.pods["uid-1"]
	setReady(fellIll, false)
	w.recordEvent(fellIll, false) // the other stream has shown it, and its counts have settled the reservation of an update
	w.remove("uid-2")
	w.version += 10 // other objects were written
	changed := w.stored.DeepCopy()
	shares.StartCountsAfter(&quota.CellOf(changed, simulatedCellName).Aggregation, &v1alpha1.Aggregation{SettledVersion: versions.Format(w.version)})
	w.store(changed)

	if got := w.aggregateNow(t); got != 3 {
		t.Errorf("%d available, want the 3 that both streams show", got)
	}
	counts := &quota.CellOf(w.stored, simulatedCellName).Aggregation
	if counts.CountedSpec == "" || versions.Parse(counts.SettledVersion) < w.version {
		t.Errorf("the counts are %+v, want counts of version %d or later", counts, w.version)
	}
	w.newest().deliver(w.events, len(w.events))
	setReady(fellIll, true)
	w.recordEvent(fellIll, false)
	if got := w.aggregateNow(t); got != 3 {
		t.Errorf("%d available before the stream has shown that the pod is available again, want 3", got)
	}
	w.newest().deliver(w.events, len(w.events))
	if got := w.aggregateNow(t); got != 4 {
		t.Errorf("%d available when the stream has caught up, want 4", got)
	}
}

// A leader that reports from the lost history writes into the restored core, which gives the Cell a current version.
func TestHeartbeatKeepsEvidenceOfCoreRestore(t *testing.T) {
	for claim, test := range map[string]struct {
		seen, version, now string
		restoredVersion    string
		denied, restored   bool
	}{
		"nothing happened":                            {seen: "150", version: "155", now: "160"},
		"a Cell of before there were notes":           {version: "155", now: "160"},
		"such a Cell in a restored core":              {version: "155", now: "1000000160", restored: true},
		"restored, and not reported since":            {seen: "150", version: "155", now: "1000000160", restored: true},
		"restored, and reported since":                {seen: "155", version: "1000000158", now: "1000000160", denied: true, restored: true},
		"restored, and another client wrote the Cell": {seen: "150", version: "1000000158", now: "1000000160", denied: true, restored: true},
		"restored, noted, and reported since":         {seen: "1000000170", version: "1000000171", now: "1000000180", restoredVersion: "1000000160"},
		"restored to later than what was noted":       {seen: "1000000170", version: "2000000171", now: "2000000180", restoredVersion: "1000000160", denied: true, restored: true},
		"restored without the advice: goes back":      {seen: "150", version: "120", now: "130", denied: true, restored: true},
	} {
		t.Run(claim, func(t *testing.T) {
			cell := &v1alpha1.Cell{}
			cell.ResourceVersion = test.version
			cell.Status.Aggregator = v1alpha1.CellAggregator{Epoch: 1, SeenVersion: test.seen, RestoredVersion: test.restoredVersion}
			if got := (&cellTakeover{}).isRestored(cell, versions.Parse(test.now)); got != test.restored {
				t.Errorf("isRestored() = %t, want %t", got, test.restored)
			}
			if err := versions.RecordSeen(cell); (err != nil) != test.denied {
				t.Errorf("recordSeenVersion() = %v, want an error: %t", err, test.denied)
			}
			if want := map[bool]string{true: test.seen, false: test.version}[test.denied]; cell.Status.Aggregator.SeenVersion != want {
				t.Errorf("seen version %s, want %s", cell.Status.Aggregator.SeenVersion, want)
			}
		})
	}
}
