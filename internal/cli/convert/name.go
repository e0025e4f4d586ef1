package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

const maxNameLength = 253

type id struct{ namespace, name string }

// makeNamesUnique gives each protector a unique name. The first kind keeps the name, and the others get their kind's alias as a suffix.
func makeNamesUnique(drafts []draft) {
	holders := map[id]string{}
	var unnamed []*draft
	for i := range drafts {
		d := &drafts[i]
		key := id{d.protector.Namespace, d.protector.Name}
		if d.conversion.generated {
			unnamed = append(unnamed, d)
		} else if _, taken := holders[key]; taken {
			unnamed = append(unnamed, d)
		} else {
			holders[key] = d.conversion.from.String()
		}
	}
	for _, d := range unnamed {
		key := id{d.protector.Namespace, d.protector.Name}
		for n := 1; ; n++ {
			suffix := "-" + d.kind.Alias
			if n > 1 {
				suffix = fmt.Sprintf("%s-%d", suffix, n)
			}
			d.protector.Name = withSuffix(key.name, suffix)
			if _, taken := holders[id{key.namespace, d.protector.Name}]; !taken {
				break
			}
		}
		holders[id{key.namespace, d.protector.Name}] = d.conversion.from.String()
		holder := holders[key]
		if d.conversion.generated {
			holder = "the protector that Breakwater's generator creates for its Deployment"
		}
		d.conversion.warn(Renamed, "%s has its name, so that its protector is %s", holder, d.protector.Name)
	}
}

// withSuffix appends a suffix. It replaces the end of a name that would be too long by a hash.
func withSuffix(name, suffix string) string {
	if len(name)+len(suffix) <= maxNameLength {
		return name + suffix
	}
	sum := sha256.Sum256([]byte(name))
	hash := "-" + hex.EncodeToString(sum[:4])
	return strings.TrimRight(name[:maxNameLength-len(suffix)-len(hash)], "-.") + hash + suffix
}
