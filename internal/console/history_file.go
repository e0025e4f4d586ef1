package console

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/console/history"
)

// historyVersion is the version of the format of a history file. A file of another version is ignored and replaced.
const historyVersion = 1

// historyFile keeps the histories of all cores in a file. It replaces the file as a whole, so that a crash leaves the previous one. Its size is
// bounded by maxPoints.
type historyFile struct {
	path     string
	interval time.Duration
	cores    []*core
	log      logr.Logger
	now      func() time.Time
}

// historyHeader is the first value of a history file. A historyRecord for each protector follows.
type historyHeader struct {
	Version int
	// At is the time up to which the records are complete.
	At time.Time
}

type historyRecord struct {
	Core, Namespace, Name string
	Points                []history.Point
	// Events are the counts of denials, by event, that the points contain.
	Events map[string]int
}

// load fills the stores of the cores. It keeps what precedes a damaged part. The error says why some or all of the file is ignored.
func (f *historyFile) load() error {
	file, err := os.Open(f.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	decoder, header := gob.NewDecoder(bufio.NewReader(file)), historyHeader{}
	if err := decoder.Decode(&header); err != nil {
		return fmt.Errorf("read its header: %w", err)
	}
	if header.Version != historyVersion {
		return fmt.Errorf("it has version %d, want %d", header.Version, historyVersion)
	}
	for {
		var record historyRecord
		if err := decoder.Decode(&record); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read its records: %w", err)
		}
		for _, c := range f.cores {
			if c.name == record.Core {
				c.store.restore(&record, header.At)
			}
		}
	}
}

// Start implements manager.Runnable. It saves periodically, and at the end.
func (f *historyFile) Start(ctx context.Context) error {
	ticker := time.NewTicker(f.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			f.trySave()
		case <-ctx.Done():
			f.trySave()
			return nil
		}
	}
}

func (f *historyFile) trySave() {
	if err := f.save(); err != nil {
		f.log.Error(err, "Cannot save the history", "file", f.path)
	}
}

func (f *historyFile) save() (err error) {
	file, err := os.CreateTemp(filepath.Dir(f.path), filepath.Base(f.path)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close(), os.Remove(file.Name()))
		}
	}()
	buffered := bufio.NewWriter(file)
	encoder := gob.NewEncoder(buffered)
	if err := encoder.Encode(historyHeader{Version: historyVersion, At: f.now()}); err != nil {
		return err
	}
	for _, c := range f.cores {
		for _, record := range c.store.records() {
			record.Core = c.name
			if err := encoder.Encode(record); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(buffered.Flush(), file.Sync()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), f.path); err != nil {
		return err
	}
	return file.Close()
}

// records returns the histories of a store.
func (s *store) records() (records []historyRecord) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for key, points := range s.histories.All() {
		record := historyRecord{Namespace: key.Namespace, Name: key.Name, Points: points, Events: map[string]int{}}
		for _, d := range s.denials[key] {
			record.Events[d.Event] = d.Count
		}
		records = append(records, record)
	}
	return records
}

// restore adds a history that is complete up to a time. What happened later is unknown.
func (s *store) restore(record *historyRecord, at time.Time) {
	s.update(func(now time.Time) {
		key := types.NamespacedName{Namespace: record.Namespace, Name: record.Name}
		s.histories.Restore(key, now, at, record.Points)
		for event, count := range record.Events {
			s.restoredEvents[restoredEvent{key, event}] = count
		}
	})
}

// restoredEvent identifies an event whose denials a restored history contains.
type restoredEvent struct {
	protector types.NamespacedName
	name      string
}
