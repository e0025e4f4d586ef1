package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

const maxNameLength = 253

type id struct{ namespace, name string }

// rename gives each protector a unique name. The first kind keeps the name, and the others get their kind's alias as a suffix.
func rename(drafts []draft) {
	holders := map[id]string{}
	var homeless []*draft
	for i := range drafts {
		d := &drafts[i]
		key := id{d.protector.Namespace, d.protector.Name}
		if d.reading.generated {
			homeless = append(homeless, d)
		} else if _, taken := holders[key]; taken {
			homeless = append(homeless, d)
		} else {
			holders[key] = d.reading.from.String()
		}
	}
	for _, d := range homeless {
		key := id{d.protector.Namespace, d.protector.Name}
		for n := 1; ; n++ {
			suffix := "-" + d.kind.Alias
			if n > 1 {
				suffix = fmt.Sprintf("%s-%d", suffix, n)
			}
			d.protector.Name = suffixed(key.name, suffix)
			if _, taken := holders[id{key.namespace, d.protector.Name}]; !taken {
				break
			}
		}
		holders[id{key.namespace, d.protector.Name}] = d.reading.from.String()
		who := holders[key]
		if d.reading.generated {
			who = "the protector that our generator makes of its Deployment"
		}
		d.reading.differs(Renamed, "%s has its name, so that its protector is %s", who, d.protector.Name)
	}
}

// suffixed appends a suffix. It replaces the end of a name that would be too long by a hash.
func suffixed(name, suffix string) string {
	if len(name)+len(suffix) <= maxNameLength {
		return name + suffix
	}
	sum := sha256.Sum256([]byte(name))
	hash := "-" + hex.EncodeToString(sum[:4])
	return strings.TrimRight(name[:maxNameLength-len(suffix)-len(hash)], "-.") + hash + suffix
}
