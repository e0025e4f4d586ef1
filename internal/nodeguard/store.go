package nodeguard

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
	"github.com/breakwater-k8s/breakwater/internal/nodeguard/podwire"
)

// store keeps what the guard knows on disk, so that the guard, the kubelet and the node may restart in a disaster. Each pod has a file with
// a checksum.
type store struct{ dir string }

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

func newStore(dir string) (*store, error) {
	return &store{dir}, os.MkdirAll(dir, 0o700)
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

func (s *store) drop(uid types.UID) error {
	if err := os.Remove(filepath.Join(s.dir, string(uid)+podSuffix)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// load returns all stored pods. It leaves out damaged files, and returns their errors.
func (s *store) load() (entries []podhold.Entry, objects map[types.UID]encoded, damaged []error) {
	objects = map[types.UID]encoded{}
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, objects, []error{err}
	}
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), podSuffix) {
			continue
		}
		if len(entries) >= maxStored {
			damaged = append(damaged, fmt.Errorf("stored pod %s: more than %d pods are stored", file.Name(), maxStored))
			continue
		}
		e, object, err := s.read(file.Name())
		if err != nil {
			damaged = append(damaged, err)
			continue
		}
		entries, objects[e.Pod.UID] = append(entries, e), object
	}
	return entries, objects, damaged
}

func (s *store) read(name string) (podhold.Entry, encoded, error) {
	content, err := os.ReadFile(filepath.Join(s.dir, name))
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

// write replaces a file of the store.
func (s *store) write(name string, content []byte) error {
	return ReplaceFile(filepath.Join(s.dir, name), content, 0o600)
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

func (s *store) loadIdentity() (Identity, error) {
	var i Identity
	raw, err := s.readFile(identityFile)
	if err != nil || raw == nil {
		return i, err
	}
	return i, json.Unmarshal(raw, &i)
}

// readFile returns the content of a file; nil if it does not exist.
func (s *store) readFile(name string) ([]byte, error) {
	raw, err := os.ReadFile(filepath.Join(s.dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return raw, err
}

func (s *store) saveIdentity(i Identity) error {
	raw, err := json.Marshal(i)
	if err != nil {
		return err
	}
	return s.write(identityFile, raw)
}

// podsDir is the directory of stored pods, below the guard's.
const podsDir = "pods"

// Exceptions lists the pods of a node in its guard's directory whose containers end when the guard is removed: those that are held, and those
// that were registered again.
func Exceptions(dir, node string) ([]string, error) {
	entries, _, damaged := (&store{filepath.Join(dir, podsDir)}).load()
	err := errors.Join(damaged...)
	if errors.Is(err, os.ErrNotExist) {
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
