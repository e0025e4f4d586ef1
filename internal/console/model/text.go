package model

import (
	"cmp"
	"strings"
)

func compareText(a, b string) int { return cmp.Compare(strings.ToLower(a), strings.ToLower(b)) }

// StateText returns the display name of a state.
func StateText(s State) string {
	switch s {
	case StateBelowFloor:
		return "below floor"
	case StateFloorUnknown:
		return "floor unknown"
	case StateNotCounted:
		return "not counted"
	case StateAboveExpected:
		return "more pods than expected"
	case StateVanished:
		return "target vanished"
	case StateRestored:
		return "restored"
	case StateRefused:
		return "recently refused"
	case StateAtFloor:
		return "at floor"
	case StateSpread:
		return "spread unsatisfied"
	case StateOverlapping:
		return "overlapping"
	case StateUnguarded:
		return "not guarded"
	case StateGuardUnknown:
		return "guard unknown"
	case StateNoPods:
		return "matches no pod"
	case StateMisspelt:
		return "misspelt label or annotation"
	case StateScaledToZero:
		return "scaled to 0"
	default:
		return string(s)
	}
}
