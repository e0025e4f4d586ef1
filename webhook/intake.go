package webhook

import (
	"bytes"
	"errors"
	"io"

	"golang.org/x/sync/semaphore"
)

// mostBytesInFlight is how many bytes of reviews are in memory at a time. A review has some 10 KiB, so that this is enough for 20,000 of them; the
// chart's limit of memory has room for it twice, as a buffer that grows needs.
const mostBytesInFlight = 256 << 20

// errOverloaded is why a review is not read.
var errOverloaded = errors.New("too many reviews are being read at once; try again")

// intake bounds the memory that callers can fill by reviews, also by ones that they never finish.
type intake struct{ free *semaphore.Weighted }

func newIntake(most int64) *intake { return &intake{semaphore.NewWeighted(most)} }

// read reads a body, of which expected bytes are announced, or -1. The caller calls release when it does not need the content any more, also after an
// error.
func (i *intake) read(body io.Reader, expected int64) (content []byte, release func(), err error) {
	m := &metered{from: body, free: i.free}
	content, err = readAll(m, expected)
	return content, func() { i.free.Release(m.held) }, err
}

// metered takes what it reads out of what is free.
type metered struct {
	from io.Reader
	free *semaphore.Weighted
	held int64
}

func (m *metered) Read(into []byte) (int, error) {
	n, err := m.from.Read(into)
	if n > 0 && !m.free.TryAcquire(int64(n)) {
		return 0, errOverloaded
	}
	m.held += int64(n)
	return n, err
}

// readAll is io.ReadAll that knows, or is told wrongly, how much to expect.
func readAll(from io.Reader, expected int64) ([]byte, error) {
	const usual = 64 << 10
	buffer := bytes.NewBuffer(make([]byte, 0, bytes.MinRead+min(max(expected, 0), usual)))
	_, err := buffer.ReadFrom(from)
	return buffer.Bytes(), err
}
