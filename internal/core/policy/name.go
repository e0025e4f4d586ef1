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
	// partHashLength is the length of the hash at the end of the name of a part.
	partHashLength = 8
	// maxGroupLength leaves room for a name after the group.
	maxGroupLength = 100
)

// ProtectorName returns the name of the protector of a source: its kind, '-', its name. A name that does not fit ends in a hash of
// itself. Those names are exactly 253 characters long and all others are shorter, so that no workload can be named to take the place
// of another. There is no further separator between the two parts, because the API server rejects names with '-' next to '.'.
func ProtectorName(source Ref) string {
	return truncateName(kindPrefix(source.GroupKind()), source.Name)
}

// PartName returns the name of the protector of one part of a source that has several. It ends in a hash. Without it, part b of
// source a, and part c of source a-b, could have the same name.
func PartName(source Ref, part string) string {
	if part == "" {
		return ProtectorName(source)
	}
	name := source.Name + "-" + part + "-" + hash(source.Name + "/" + part)[:partHashLength]
	return truncateName(kindPrefix(source.GroupKind()), name)
}

func truncateName(prefix, name string) string {
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

// kindPrefix returns the part of the name for the kind. Built-in kinds have a short prefix. All others append '.' and their group, so
// that a foreign Deployment kind is not mistaken for the built-in one. A group with a '-' is hashed, because its end would be
// ambiguous. A very long group is hashed too.
func kindPrefix(kind schema.GroupKind) string {
	prefix := strings.ToLower(kind.Kind)
	switch {
	case kind.Group == "apps" || kind.Group == "":
		return prefix + "-"
	case strings.Contains(kind.Group, "-") || len(kind.Group) > maxGroupLength:
		return prefix + "." + hash(kind.Group) + "-"
	default:
		return prefix + "." + kind.Group + "-"
	}
}
