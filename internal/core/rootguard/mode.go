package rootguard

import (
	"fmt"
	"slices"
)

// Mode is what happens to a deletion that live floors depend on.
type Mode string

const (
	// Off asks about nothing.
	Off Mode = "Off"
	// Warn allows it with a warning to the client.
	Warn Mode = "Warn"
	// Deny refuses it until it is confirmed, or the object is scaled to 0.
	Deny Mode = "Deny"
)

// ParseMode reads a mode as users write it.
func ParseMode(text string) (Mode, error) {
	if mode := Mode(text); slices.Contains([]Mode{Off, Warn, Deny}, mode) {
		return mode, nil
	}
	return "", fmt.Errorf("%q is not a mode: want Off, Warn or Deny", text)
}
