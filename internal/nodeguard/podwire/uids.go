package podwire

import (
	"bytes"

	"k8s.io/apimachinery/pkg/types"
)

// uidLength is the length of a UID. All UIDs of an API server have it, so that one replaces another in any encoding.
const uidLength = 36

// UIDs translates UIDs of pods in requests and responses. It replaces them wherever they are, which needs no knowledge of types: UIDs are
// random, and equally long, so that JSON and Protobuf stay valid.
type UIDs map[types.UID]types.UID

// NewUIDs returns a translation. It ignores UIDs of another length, such as those of static pods.
func NewUIDs(pairs map[types.UID]types.UID) UIDs {
	u := UIDs{}
	for from, to := range pairs {
		if len(from) == uidLength && len(to) == uidLength {
			u[from] = to
		}
	}
	return u
}

// Replace returns text with all UIDs translated. It does not change text.
func (u UIDs) Replace(text []byte) []byte {
	for from, to := range u {
		text = bytes.ReplaceAll(text, []byte(from), []byte(to))
	}
	return text
}

// Inverse returns the opposite translation.
func (u UIDs) Inverse() UIDs {
	inverse := UIDs{}
	for from, to := range u {
		inverse[to] = from
	}
	return inverse
}
