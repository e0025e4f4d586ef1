package brake

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// ConfigMapName is the name of the ConfigMap that stores the grants of the current windows, in the namespace of the generator.
const ConfigMapName = "breakwater-large-decreases"

// maxKeyLength is the maximum length of a ConfigMap key.
const maxKeyLength = 253

// Key returns the key of a budget in that ConfigMap. Policies name the budgets, and policy names contain only characters that are
// valid in keys.
func Key(budget string) string {
	if len(budget) <= maxKeyLength {
		return budget
	}
	sum := sha256.Sum256([]byte(budget))
	return budget[:maxKeyLength-2*len(sum)-1] + "-" + hex.EncodeToString(sum[:])
}

// ReadGrants parses the grants under a key of the ConfigMap. It returns none if the key does not exist.
func ReadGrants(data map[string]string, key string) (grants []Grant, err error) {
	text := data[key]
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &grants); err != nil {
		return nil, fmt.Errorf("key %s was not written by Breakwater: %w; delete the key", key, err)
	}
	return grants, nil
}

// maxWindow is the longest window that a policy can have.
const maxWindow = 24 * time.Hour

// DropExpired drops the grants of all budgets except one that no window contains any more. Nothing decides about the budgets of deleted policies
// again, and a ConfigMap may have 1 MiB. It keeps keys that it cannot read.
func DropExpired(data map[string]string, except string, now time.Time) {
	for key := range data {
		grants, err := ReadGrants(data, key)
		if err != nil || key == except {
			continue
		}
		if !slices.ContainsFunc(grants, func(g Grant) bool { return now.Sub(g.At) < maxWindow }) {
			delete(data, key)
		}
	}
}
