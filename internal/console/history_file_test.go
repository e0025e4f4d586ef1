package console

import (
	"bytes"
	"encoding/gob"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/console/history"
)

// newHistoryFile returns a history file of a core whose store is empty.
func newHistoryFile(path string, now func() time.Time) *historyFile {
	return &historyFile{path: path, cores: []*core{{name: "east", store: newStore(now, maxPoints)}}, log: logr.Discard(), now: now}
}

func TestHistorySurvivesRestart(t *testing.T) {
	now := time.Now().Truncate(time.Minute)
	clock := func() time.Time { return now }
	path := filepath.Join(t.TempDir(), "history")
	before := newHistoryFile(path, clock)
	if err := before.load(); err != nil {
		t.Fatalf("load() without a file: %v", err)
	}
	var keys []types.NamespacedName
	for _, name := range []string{"web", "db", "cache"} {
		p := &v1alpha1.PodProtector{}
		p.Namespace, p.Name = "shop", name
		keys = append(keys, nameOf(p))
		before.cores[0].store.histories.Observe(nameOf(p), now, history.Sample{Available: 7, Floor: 5, Known: true, FloorKnown: true})
		before.cores[0].store.addDenial(nameOf(p), newDenial("event", now, 4))
	}
	now = now.Add(time.Minute)
	if err := before.save(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	restored := func(content []byte) (count int, err error) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		file := newHistoryFile(path, clock)
		err = file.load()
		for _, key := range keys {
			store := file.cores[0].store
			store.addDenial(key, newDenial("event", now, 5)) // the API server lists the event again: one removal is new
			points, since := store.historyOf(key, now, time.Hour)
			if since.IsZero() {
				continue
			}
			count++
			if n := len(points); n != 3 || points[0].Last.Available != 7 || points[0].Denied != 4 || points[1].Last.Known || points[n-1].Denied != 1 {
				t.Errorf("points of %s: %+v, want 7 pods and 4 denials, a gap, and one denial", key, points)
			}
		}
		return count, err
	}
	if count, err := restored(raw); err != nil || count != 3 {
		t.Errorf("%d histories are restored, want 3: %v", count, err)
	}
	if count, err := restored(raw[:len(raw)-10]); err == nil || count != 2 {
		t.Errorf("%d histories of a truncated file are restored, error %v, want 2 and an error", count, err)
	}
	if count, err := restored([]byte("not a history")); err == nil || count != 0 {
		t.Errorf("%d histories of another file are restored, error %v", count, err)
	}
	var later bytes.Buffer
	if err := gob.NewEncoder(&later).Encode(historyHeader{Version: 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := restored(later.Bytes()); err == nil || !strings.Contains(err.Error(), "version 2, want 1") {
		t.Errorf("load() of another version: %v", err)
	}
	if left, err := filepath.Glob(path + ".*"); err != nil || len(left) > 0 {
		t.Errorf("temporary files %q remain, error %v", left, err)
	}
}
