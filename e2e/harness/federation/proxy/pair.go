package proxy

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	chunkSize = 16 << 10
	// queued chunks of one direction. When they are full the proxy reads no more, and the sender feels the back
	// pressure as it would from a slow network.
	queued = 64
)

// pair is one client connection and its connection to the server.
type pair struct {
	client, server *net.TCPConn
	over           chan struct{} // closed by reset
	once           sync.Once
}

// chunk is data on its way. A chunk without bytes is the end of the stream.
type chunk struct {
	bytes []byte
	due   time.Time
}

// run forwards both directions and returns when both have ended.
func (p *pair) run(lanes map[Direction]*lane) {
	var ways sync.WaitGroup
	for _, way := range []struct {
		from, to *net.TCPConn
		lane     *lane
	}{{p.client, p.server, lanes[ToServer]}, {p.server, p.client, lanes[ToClient]}} {
		chunks := make(chan chunk, queued)
		ways.Go(func() { p.read(way.from, way.lane, chunks) })
		ways.Go(func() { p.write(way.to, way.lane, chunks) })
	}
	ways.Wait()
	// An orderly end, unless reset came first: a reset now would destroy what the peers have not read yet.
	_ = p.client.Close()
	_ = p.server.Close()
}

// reset ends both connections at once; the peers see a reset, not an orderly end.
func (p *pair) reset() {
	p.once.Do(func() {
		close(p.over)
		reset(p.client)
		reset(p.server)
	})
}

func reset(c *net.TCPConn) {
	_ = c.SetLinger(0) // fails only for a connection that is gone already
	_ = c.Close()
}

// read queues what comes in, with the time at which it may leave. It closes chunks at the end.
func (p *pair) read(from *net.TCPConn, lane *lane, chunks chan<- chunk) {
	defer close(chunks)
	for {
		buffer := make([]byte, chunkSize)
		n, err := from.Read(buffer)
		now, _ := lane.current()
		if n > 0 && !p.queue(chunks, chunk{bytes: buffer[:n], due: time.Now().Add(now.delay)}) {
			return
		}
		switch {
		case errors.Is(err, io.EOF):
			p.queue(chunks, chunk{due: time.Now().Add(now.delay)})
			return
		case err != nil:
			p.reset() // one peer was reset, so the other shall be
			return
		}
	}
}

func (p *pair) queue(chunks chan<- chunk, c chunk) bool {
	select {
	case chunks <- c:
		return true
	case <-p.over:
		return false
	}
}

// write sends on what read queued, first in first out. After a cut it tells the receiver that the stream ended
// and drops the rest, for the sender shall not notice.
func (p *pair) write(to *net.TCPConn, lane *lane, chunks <-chan chunk) {
	ended := false
	for {
		now, changed := lane.current()
		if now.cut && !ended {
			ended = true
			_ = to.CloseWrite()
		}
		select {
		case <-p.over:
			return
		case <-changed:
		case c, ok := <-chunks:
			switch {
			case !ok:
				return
			case ended || !lane.pass(c.due, p.over):
			case len(c.bytes) == 0:
				ended = true
				_ = to.CloseWrite()
			default:
				if _, err := to.Write(c.bytes); err != nil {
					p.reset()
				}
			}
		}
	}
}
