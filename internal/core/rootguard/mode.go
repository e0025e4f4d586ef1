package rootguard

import (
	"fmt"
	"slices"
)

// Mode is the treatment of deletions that live floors depend on.
type Mode string

const (
	// Off disables the check.
	Off Mode = "Off"
	// Warn allows the deletion with a warning to the client.
	Warn Mode = "Warn"
	// Deny denies the deletion until a user confirms it, or scales the object to 0.
	Deny Mode = "Deny"
)

// ParseMode parses a mode in the format that users write.
func ParseMode(text string) (Mode, error) {
	if mode := Mode(text); slices.Contains([]Mode{Off, Warn, Deny}, mode) {
		return mode, nil
	}
	return "", fmt.Errorf("%q is not a mode: want Off, Warn or Deny", text)
}
