// Package brake decides when a large decrease of a floor may take effect (rule 13). A large decrease is the release of a protector,
// or a floor that falls by half or more.
//
// A single decrease waits for a quiet period. If more are pending by then than the limit of the window allows, all of them are
// held, so that a burst loses no floor at all. A decrease that was pending for a whole window may take effect when the limit
// allows it: in each window, an accident that continues takes no more floors than the limit. A decrease that a cascade
// causes is held until someone confirms it.
//
// Everything here is pure. The shell stores when each decrease was first seen in the condition DecreasePending of its protector, and
// the grants of the window in one object that it writes by compare-and-swap, so that restarts and several leaders share one budget.
package brake
