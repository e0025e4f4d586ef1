package nodeguard

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
	"github.com/breakwater-k8s/breakwater/internal/nodeguard/podwire"
)

// store keeps what the guard knows on disk, so that the guard, the kubelet and the node may restart in a disaster. Each pod has a file with
// a checksum. It is safe for concurrent use.
type store struct {
	dir string
	log logr.Logger
	// machine is the machine that it is on.
	machine podhold.Machine

	mu sync.Mutex
	// pending are the files that could not be written yet, by name. A file without content is to be removed.
	pending map[string][]byte
	// reserve keeps them; nil while its space is not allocated. kept has the names of those that it keeps: a restart loses the others.
	reserve *reserve
	kept    map[string]bool
	// outdated reports that the last write of the reserve failed, so that a restart would bring back what it has from before.
	outdated bool
	// written are the files that were written while the reserve was not open. What it has of them is older.
	written map[string]bool
}

// record is what is stored of a pod, before its encoded object.
type record struct {
	Format     podwire.Format `json:"format"`
	Registered types.UID      `json:"registered,omitempty"`
	HeldSince  time.Time      `json:"heldSince,omitzero"`
	HeldAt     time.Duration  `json:"heldAt,omitempty"`
	Lost       types.UID      `json:"lost,omitempty"`
}

const (
	podSuffix = ".pod"
	// maxStored limits the files. A kubelet runs 110 pods by default.
	maxStored = 2000
)

// newStore opens the store in a directory. What an earlier guard could not write counts as stored.
func newStore(dir string) (*store, error) {
	s := &store{dir: dir}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s.allocate()
	s.retry()
	return s, nil
}

// save stores a pod.
func (s *store) save(e podhold.Entry, object encoded) error {
	head, err := json.Marshal(record{Format: object.format, Registered: e.Registered, HeldSince: e.HeldSince, HeldAt: e.HeldAt, Lost: e.Lost})
	if err != nil {
		return err
	}
	return s.write(string(e.Pod.UID)+podSuffix, withChecksum(append(append(head, '\n'), object.raw...)))
}

func withChecksum(content []byte) []byte {
	return binary.BigEndian.AppendUint32(content, crc32.Checksum(content, crc32.MakeTable(crc32.Castagnoli)))
}

// withoutChecksum returns content without its checksum. It reports whether that is right.
func withoutChecksum(content []byte) ([]byte, bool) {
	body := content[:max(len(content)-crc32.Size, 0)]
	return body, len(body) > 0 && bytes.Equal(content, withChecksum(slices.Clone(body)))
}

// drop removes a pod. One that stayed would be taken for a pod that the API server lost.
func (s *store) drop(uid types.UID) error { return s.write(string(uid)+podSuffix, nil) }

// load returns all stored pods. It leaves out damaged files, and returns their errors.
func (s *store) load() (entries []podhold.Entry, objects map[types.UID]encoded, damaged []error) {
	objects = map[types.UID]encoded{}
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, objects, []error{err}
	}
	isStored := map[string]bool{}
	for _, file := range files {
		isStored[file.Name()] = true
	}
	s.mu.Lock()
	for name, content := range s.pending {
		isStored[name] = content != nil
	}
	s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(isStored)) {
		if !strings.HasSuffix(name, podSuffix) || !isStored[name] {
			continue
		}
		if len(entries) >= maxStored {
			damaged = append(damaged, fmt.Errorf("stored pod %s: more than %d pods are stored", name, maxStored))
			continue
		}
		e, object, err := s.read(name)
		if err != nil {
			damaged = append(damaged, err)
			continue
		}
		entries, objects[e.Pod.UID] = append(entries, e), object
	}
	return entries, objects, damaged
}

func (s *store) read(name string) (podhold.Entry, encoded, error) {
	content, err := s.readFile(name)
	if err != nil {
		return podhold.Entry{}, encoded{}, err
	}
	body, valid := withoutChecksum(content)
	head, raw, found := bytes.Cut(body, []byte("\n"))
	if !found || !valid {
		return podhold.Entry{}, encoded{}, fmt.Errorf("stored pod %s: the checksum is wrong", name)
	}
	var r record
	if err := json.Unmarshal(head, &r); err != nil {
		return podhold.Entry{}, encoded{}, fmt.Errorf("stored pod %s: %w", name, err)
	}
	pod, err := podwire.Decode(r.Format, raw)
	if err != nil {
		return podhold.Entry{}, encoded{}, fmt.Errorf("stored pod %s: %w", name, err)
	}
	e := podhold.Entry{Pod: podhold.PodOf(pod), Registered: r.Registered, HeldSince: r.HeldSince, HeldAt: r.HeldAt, Lost: r.Lost}
	return e, encoded{r.Format, raw}, nil
}

// write replaces a file of the store, or removes it if there is no content. What cannot be written is kept in the reserve, and tried again. It
// returns an error if a restart would lose it.
func (s *store) write(name string, content []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, failedBefore := s.pending[name]
	err := s.replace(name, content)
	if err == nil {
		delete(s.pending, name)
		s.recordWritten(name)
		if failedBefore || s.isInReserve(name) {
			return s.keep()
		}
		return nil
	}
	if s.pending == nil {
		s.pending = map[string][]byte{}
	}
	s.pending[name] = content
	kept := s.keep()
	if !failedBefore {
		s.log.Error(err, "Failed to write file, retrying", "file", name, "inReserve", s.kept[name])
	}
	if s.kept[name] {
		return nil
	}
	return errors.Join(err, kept)
}

func (s *store) replace(name string, content []byte) error {
	path := filepath.Join(s.dir, name)
	if content != nil {
		return ReplaceFile(path, content, 0o600)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// keep puts what could not be written into the reserve. The caller holds the lock.
func (s *store) keep() (err error) {
	s.kept = nil
	if s.reserve == nil {
		return nil
	}
	s.kept, err = s.reserve.keep(s.pending)
	s.outdated = err != nil
	return err
}

// isInReserve reports whether a restart would use what the reserve has of a file. The caller holds the lock.
func (s *store) isInReserve(name string) bool {
	if s.reserve == nil {
		return false
	}
	_, found := s.reserve.last.Files[name]
	return found
}

// recordWritten records a file that is written while the reserve is not open. The caller holds the lock.
func (s *store) recordWritten(name string) {
	if s.reserve != nil {
		return
	}
	if s.written == nil {
		s.written = map[string]bool{}
	}
	s.written[name] = true
}

// allocate opens the reserve, unless it is open.
func (s *store) allocate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reserve != nil {
		return
	}
	r, err := openReserve(s.dir)
	if err != nil {
		s.log.Error(err, "Failed to reserve space for a full disk, retrying")
		return
	}
	s.reserve = r
	newer := s.pending
	s.pending = maps.Clone(r.last.Files)
	for name, content := range newer {
		s.pending[name] = content
	}
	for name := range s.written {
		if _, isNewer := newer[name]; !isNewer {
			delete(s.pending, name)
		}
	}
	s.written = nil
	if err := s.keep(); err != nil {
		s.log.Error(err, "Failed to write the reserve, retrying")
	}
}

const (
	// retryEvery is how often the store tries again to write a file.
	retryEvery = 5 * time.Second
	// allocateEvery is rarer: an attempt takes what space is left, for a moment.
	allocateEvery = time.Minute
)

// keepTrying writes what could not be written until ctx ends.
func (s *store) keepTrying(ctx context.Context) {
	go wait.UntilWithContext(ctx, func(context.Context) { s.allocate() }, allocateEvery)
	wait.UntilWithContext(ctx, func(context.Context) { s.retry() }, retryEvery)
}

func (s *store) retry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	wrote := 0
	for name, content := range s.pending {
		if s.replace(name, content) == nil {
			delete(s.pending, name)
			s.recordWritten(name)
			wrote++
		}
	}
	if wrote == 0 && len(s.pending) == len(s.kept) && !s.outdated {
		return
	}
	if err := s.keep(); err != nil {
		s.log.Error(err, "Failed to write the reserve, retrying")
	}
	if wrote > 0 {
		s.log.Info("Wrote files that could not be written before", "files", wrote, "left", len(s.pending))
	}
}

// unwritten returns how many files could not be written, and how many of these a restart of the guard would lose. An outdated reserve is one of both.
func (s *store) unwritten() (all, lost int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, lost = len(s.pending), len(s.pending)-len(s.kept)
	if s.outdated {
		return all + 1, lost + 1
	}
	return all, lost
}

// ReplaceFile replaces a file, so that it has either the old content or the new one even if the node loses power.
func ReplaceFile(path string, content []byte, mode os.FileMode) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".breakwater-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // fails when it was renamed
	_, err = file.Write(content)
	if err := errors.Join(err, file.Chmod(mode), file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

const identityFile = "cluster.json"

// readJSON decodes a file into a value, which stays as it is if the file does not exist.
func (s *store) readJSON(name string, into any) error {
	raw, err := s.readFile(name)
	if err != nil || raw == nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("stored %s: %w", name, err)
	}
	return nil
}

func (s *store) writeJSON(name string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return s.write(name, raw)
}

// readFile returns the content of a file; nil if it does not exist.
func (s *store) readFile(name string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if content, pending := s.pending[name]; pending {
		return content, nil
	}
	raw, err := os.ReadFile(filepath.Join(s.dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return raw, err
}

// podsDir is the directory of stored pods, below the guard's.
const podsDir = "pods"

// Exceptions lists the pods of a node in its guard's directory whose containers end when the guard is removed: those that are held, and those
// that were registered again.
func Exceptions(dir, node string) ([]string, error) {
	s := &store{dir: filepath.Join(dir, podsDir)}
	var err error
	if s.pending, err = readReserve(s.dir); err != nil {
		return nil, err
	}
	entries, _, damaged := s.load()
	if err = errors.Join(damaged...); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var all []string
	for _, e := range entries {
		if e.Pod.Node == node && (e.IsHeld() || e.Registered != "") {
			all = append(all, e.Pod.String())
		}
	}
	return all, err
}
