// Package brake decides when a large decrease of a floor may take effect (rule 13). A large decrease is the release of a protector,
// a floor that falls by half or more, or another change by which a protector protects less.
//
// A single decrease waits for a quiet period. If more decreases are pending by then than the limit of the window allows, the brake
// holds all of them, so that a burst lowers no floor at all. A decrease that was pending for a whole window may take effect when the
// limit allows it. In each window, an accident that continues lowers no more floors than the limit. The brake holds a decrease that a
// cascade causes until a user confirms it.
//
// This package is pure. Its caller stores when each decrease was first seen in the condition DecreasePending of its protector. It
// stores the grants of the window in one object that it writes by compare-and-swap, so that restarts and several leaders share one
// budget.
package brake
