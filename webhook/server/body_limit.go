package server

import (
	"bytes"
	"errors"
	"io"

	"golang.org/x/sync/semaphore"
)

// maxBytesInFlight limits the bytes of reviews that are in memory at a time. A review has about 10 KiB, so that the
// limit is enough for 20,000 of them. The memory limit of the chart has room for twice as much, as a growing buffer
// needs.
const maxBytesInFlight = 256 << 20

// errOverloaded is the reason why a review is not read.
var errOverloaded = errors.New("too many reviews are being read at once; try again")

// bodyLimiter limits the memory that reviews of callers can take, including reviews whose callers never finish sending.
type bodyLimiter struct{ free *semaphore.Weighted }

func newBodyLimiter(limit int64) *bodyLimiter { return &bodyLimiter{semaphore.NewWeighted(limit)} }

// read reads a body. expected is the announced length in bytes, or -1. The caller calls release when it no longer needs
// the content, also after an error.
func (l *bodyLimiter) read(body io.Reader, expected int64) (content []byte, release func(), err error) {
	m := &meteredReader{from: body, free: l.free}
	content, err = readAll(m, expected)
	return content, func() { l.free.Release(m.acquired) }, err
}

// meteredReader is a reader that acquires from free each byte that it reads.
type meteredReader struct {
	from     io.Reader
	free     *semaphore.Weighted
	acquired int64
}

func (m *meteredReader) Read(into []byte) (int, error) {
	n, err := m.from.Read(into)
	if n > 0 && !m.free.TryAcquire(int64(n)) {
		return 0, errOverloaded
	}
	m.acquired += int64(n)
	return n, err
}

// readAll is io.ReadAll with a hint of the size. The hint may be wrong.
func readAll(from io.Reader, expected int64) ([]byte, error) {
	const usual = 64 << 10
	buffer := bytes.NewBuffer(make([]byte, 0, bytes.MinRead+min(max(expected, 0), usual)))
	_, err := buffer.ReadFrom(from)
	return buffer.Bytes(), err
}
