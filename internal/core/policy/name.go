package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	maxNameLength = 253
	hashLength    = 20
	// longestGroup leaves room for a name behind it.
	longestGroup = 100
)

// ProtectorName is the name of the protector of a source: its kind, '-', its name. A name that does not fit ends in a
// hash of itself. Those are exactly 253 characters long and all others are shorter, so that no workload can be named to
// take the place of another. Nothing stands between the two parts: a '-' after a '.', or a '.' after a '-', would not
// be a name to the apiserver.
func ProtectorName(source Ref) string { return fit(kindPrefix(source.GroupKind()), source.Name) }

// PartName is the name of the protector of one part of a source that has several. It ends in a hash: otherwise the part b
// of a and the part c of a-b could be one.
func PartName(source Ref, part string) string {
	if part == "" {
		return ProtectorName(source)
	}
	name := source.Name + "-" + part + "-" + hash(source.Name + "/" + part)[:8]
	return fit(kindPrefix(source.GroupKind()), name)
}

func fit(prefix, name string) string {
	whole := prefix + name
	if len(whole) < maxNameLength {
		return whole
	}
	return whole[:maxNameLength-hashLength] + hash(name)
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:hashLength]
}

// kindPrefix is the part of the name that is of the kind. The kinds of Kubernetes itself are the short ones; all others
// have their group behind a '.', so that nobody's Deployment is taken for ours. A group with a '-' is hashed: it could
// not be told where it ends; so is a very long one.
func kindPrefix(kind schema.GroupKind) string {
	prefix := strings.ToLower(kind.Kind)
	switch {
	case kind.Group == "apps" || kind.Group == "":
		return prefix + "-"
	case strings.Contains(kind.Group, "-") || len(kind.Group) > longestGroup:
		return prefix + "." + hash(kind.Group) + "-"
	default:
		return prefix + "." + kind.Group + "-"
	}
}
