package reserve

import (
	"sync"
	"sync/atomic"
	"time"
)

// virtualCPU is a machine with a few processors in virtual time, which divides them among processes as a fair scheduler does: the one that has run least
// is next.
type virtualCPU struct {
	// used is the time for which all processes have run, in nanoseconds.
	used atomic.Int64

	mu        sync.Mutex
	idle      int // processors
	processes map[string]*virtualProcess
	// slowest is the runtime that the last scheduled process had.
	slowest time.Duration
}

// virtualProcess is a process on a virtualCPU.
type virtualProcess struct {
	ran     time.Duration
	running int // threads
	waiting []chan struct{}
}

const (
	// timeSlice is how long a thread runs before another one may be next.
	timeSlice = time.Millisecond
	// sleeperCredit is how far behind the others a process may be that has slept.
	sleeperCredit = 3 * time.Millisecond
)

func newVirtualCPU(processors int) *virtualCPU {
	return &virtualCPU{idle: processors, processes: map[string]*virtualProcess{}}
}

// run lets a thread of a process run for d.
func (c *virtualCPU) run(process string, d time.Duration) {
	c.used.Add(int64(d))
	for d > 0 {
		slice := min(d, timeSlice)
		if turn := c.begin(process); turn != nil {
			<-turn
		}
		<-time.After(slice)
		c.end(process, slice)
		d -= slice
	}
}

// begin takes a processor. If none is idle, the returned channel closes when the thread has one.
func (c *virtualCPU) begin(process string) (turn chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.processes[process]
	if p == nil {
		p = &virtualProcess{}
		c.processes[process] = p
	}
	if p.running == 0 && len(p.waiting) == 0 {
		p.ran = max(p.ran, c.slowest-sleeperCredit)
	}
	if c.idle > 0 {
		c.idle--
		p.running++
		return nil
	}
	turn = make(chan struct{})
	p.waiting = append(p.waiting, turn)
	return turn
}

// end gives the processor of a thread to the process that has run least of those that wait.
func (c *virtualCPU) end(process string, ran time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.processes[process]
	p.running--
	p.ran += ran
	var next *virtualProcess
	for _, other := range c.processes {
		if len(other.waiting) > 0 && (next == nil || other.ran < next.ran) {
			next = other
		}
	}
	if next == nil {
		c.idle++
		return
	}
	c.slowest = max(c.slowest, next.ran)
	next.running++
	close(next.waiting[0])
	next.waiting = next.waiting[1:]
}
