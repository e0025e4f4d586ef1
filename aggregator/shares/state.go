package shares

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// localAfter is the time without an answer of the core after which a cell with shares is Local.
const localAfter = 15 * time.Second

// shareContact is what one process knows of the shares of its cell, and of the core.
type shareContact struct {
	// shares is the number of shares of the cell, and uncompared how many of them the leadership has not compared with their protectors.
	shares, uncompared int
	// silence is the time since the core last answered; 0 if it answered the last request.
	silence time.Duration
	// leads reports whether the process leads the cell, and led whether it did when the core last answered.
	leads, led bool
}

// state returns the reason of the condition Joined. It is empty if the cell has no shares, or if the process reaches the core and does not
// lead the cell: then the leader knows the state.
func (c shareContact) state() string {
	switch {
	case c.shares == 0:
		return ""
	case c.silence > localAfter:
		return v1alpha1.ReasonLocal
	case c.silence > 0 && c.led && !c.leads: // the leader lost the core and with it the Lease, and no other process leads yet
		return v1alpha1.ReasonLocal
	case !c.leads:
		return ""
	case c.uncompared > 0:
		return v1alpha1.ReasonReturning
	default:
		return v1alpha1.ReasonJoined
	}
}

// comparedShares records which shares a leadership has compared with their protectors, until it has compared all of them once. It is safe
// for concurrent use.
type comparedShares struct {
	mu         sync.Mutex
	all        bool
	protectors map[types.NamespacedName]bool
}

// record records that the share of a protector was compared, and needs no further step.
func (c *comparedShares) record(protector types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all {
		return
	}
	if c.protectors == nil {
		c.protectors = map[types.NamespacedName]bool{}
	}
	c.protectors[protector] = true
}

// restart forgets all comparisons, because shares could not be compared for a while.
func (c *comparedShares) restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all, c.protectors = false, nil
}

// missing returns how many of the shares, given by their protectors, have not been compared. Once that was 0 it stays 0, also for new
// shares, until restart.
func (c *comparedShares) missing(shares []types.NamespacedName) (missing int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all {
		return 0
	}
	for _, protector := range shares {
		if !c.protectors[protector] {
			missing++
		}
	}
	if missing == 0 {
		c.all, c.protectors = true, nil
	}
	return missing
}
