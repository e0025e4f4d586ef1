package nodeguard

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// reserve is a file whose space is allocated ahead. It keeps the files of a store that could not be written, as on a full disk. Its two halves are
// written in turn, so that a crash during a write leaves the last complete one.
type reserve struct {
	file *os.File
	last reserved
}

// reserved is the content of a half.
type reserved struct {
	Generation uint64 `json:"generation"`
	// Files are by name. A file without content is to be removed.
	Files map[string][]byte `json:"files"`
}

const (
	reserveFile = "reserve"
	// reserveHalf is enough for the pods that a kubelet runs by default, 110 of 25 KiB each.
	reserveHalf = 4 << 20
	// reserveSlack is more than a name and the rest of its JSON need.
	reserveSlack = 256
)

// openReserve opens the reserve in a directory, and allocates its space.
func openReserve(dir string) (*reserve, error) {
	file, err := os.OpenFile(filepath.Join(dir, reserveFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	r := &reserve{file: file}
	if err := r.allocate(); err != nil {
		return nil, errors.Join(fmt.Errorf("allocate the reserve: %w", err), file.Close())
	}
	if r.last, err = readReserved(file); err != nil {
		return nil, errors.Join(fmt.Errorf("read the reserve: %w", err), file.Close())
	}
	if r.last.Files == nil {
		r.last.Files = map[string][]byte{}
	}
	return r, nil
}

// allocate writes the parts of the file that do not exist yet: a file with holes would need space later.
func (r *reserve) allocate() error {
	size, err := r.file.Seek(0, io.SeekEnd)
	if err != nil || size >= 2*reserveHalf {
		return err
	}
	_, err = r.file.Write(make([]byte, 2*reserveHalf-size))
	if err = errors.Join(err, r.file.Sync()); err != nil {
		return errors.Join(err, r.file.Truncate(size)) // leave the rest of the disk to others
	}
	return nil
}

// readReserve returns what the reserve in a directory has. It does not create one.
func readReserve(dir string) (map[string][]byte, error) {
	file, err := os.Open(filepath.Join(dir, reserveFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := readReserved(file)
	return content.Files, err
}

// readReserved returns the newer of the valid halves; the zero value if none is.
func readReserved(file io.ReaderAt) (newest reserved, err error) {
	for half := range 2 {
		raw := make([]byte, reserveHalf)
		if _, err := file.ReadAt(raw, int64(half)*reserveHalf); err != nil && !errors.Is(err, io.EOF) {
			return newest, err
		}
		size := min(int(binary.BigEndian.Uint32(raw)), reserveHalf-4)
		body, valid := withoutChecksum(raw[4 : 4+size])
		var content reserved
		if valid && json.Unmarshal(body, &content) == nil && content.Generation > newest.Generation {
			newest = content
		}
	}
	return newest, nil
}

// keep replaces the content by as many of these files as fit, and returns the names of those.
func (r *reserve) keep(files map[string][]byte) (kept map[string]bool, err error) {
	kept = map[string]bool{}
	next := reserved{Generation: r.last.Generation + 1, Files: map[string][]byte{}}
	room := reserveHalf - reserveSlack
	for _, name := range slices.Sorted(maps.Keys(files)) {
		size := len(files[name])*4/3 + reserveSlack // JSON has bytes as base64
		if size > room {
			continue
		}
		room -= size
		next.Files[name], kept[name] = files[name], true
	}
	body, err := json.Marshal(next)
	if err != nil {
		return nil, err
	}
	body = withChecksum(body)
	half := binary.BigEndian.AppendUint32(nil, uint32(len(body))) //nolint:gosec // len(body) is at most reserveHalf
	_, err = r.file.WriteAt(append(half, body...), int64(next.Generation%2)*reserveHalf)
	if err := errors.Join(err, r.file.Sync()); err != nil {
		return nil, err
	}
	r.last = next
	return kept, nil
}
