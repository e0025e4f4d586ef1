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
	// maxQueuedChunks is the maximum number of queued chunks of one direction. When the queue is full the proxy stops reading,
	// which causes back pressure as in a slow network.
	maxQueuedChunks = 64
)

// connectionPair is one client connection and its connection to the server.
type connectionPair struct {
	client, server *net.TCPConn
	ended          chan struct{} // closed by reset
	once           sync.Once
}

// chunk is queued data. A chunk without bytes is the end of the stream.
type chunk struct {
	bytes []byte
	due   time.Time
}

// forward forwards both directions and returns when both have ended.
func (p *connectionPair) forward(lanes map[Direction]*lane) {
	var running sync.WaitGroup
	for _, direction := range []struct {
		from, to *net.TCPConn
		lane     *lane
	}{{p.client, p.server, lanes[ToServer]}, {p.server, p.client, lanes[ToClient]}} {
		chunks := make(chan chunk, maxQueuedChunks)
		running.Go(func() { p.read(direction.from, direction.lane, chunks) })
		running.Go(func() { p.write(direction.to, direction.lane, chunks) })
	}
	running.Wait()
	// Close normally, unless reset came first: a reset now would discard data that the peers have not read yet.
	_ = p.client.Close()
	_ = p.server.Close()
}

// reset ends both connections at once; the peers get a reset, not an orderly end.
func (p *connectionPair) reset() {
	p.once.Do(func() {
		close(p.ended)
		reset(p.client)
		reset(p.server)
	})
}

func reset(c *net.TCPConn) {
	_ = c.SetLinger(0) // fails only for a closed connection
	_ = c.Close()
}

// read queues incoming data with the time at which it may be sent. It closes chunks at the end.
func (p *connectionPair) read(from *net.TCPConn, lane *lane, chunks chan<- chunk) {
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
			p.reset() // forward the reset to the other peer
			return
		}
	}
}

func (p *connectionPair) queue(chunks chan<- chunk, c chunk) bool {
	select {
	case chunks <- c:
		return true
	case <-p.ended:
		return false
	}
}

// write sends queued data in order. After a cut it ends the stream to the receiver and drops the rest, so that the
// sender does not notice.
func (p *connectionPair) write(to *net.TCPConn, lane *lane, chunks <-chan chunk) {
	ended := false
	for {
		now, changed := lane.current()
		if now.cut && !ended {
			ended = true
			_ = to.CloseWrite()
		}
		select {
		case <-p.ended:
			return
		case <-changed:
		case c, ok := <-chunks:
			switch {
			case !ok:
				return
			case ended || !lane.wait(c.due, p.ended):
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
