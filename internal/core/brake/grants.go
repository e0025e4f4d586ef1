package brake

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// ConfigMapName is the name of the ConfigMap that has the grants of the current windows, in the namespace of the generator.
const ConfigMapName = "breakwater-large-decreases"

// longestKey is how long a key of a ConfigMap may be.
const longestKey = 253

// Key is the key of a budget in that ConfigMap. Budgets are named by policies, whose names have no other characters than keys may have.
func Key(budget string) string {
	if len(budget) <= longestKey {
		return budget
	}
	sum := sha256.Sum256([]byte(budget))
	return budget[:longestKey-2*len(sum)-1] + "-" + hex.EncodeToString(sum[:])
}

// ReadGrants reads the grants of a key of the ConfigMap; none if there is no such key.
func ReadGrants(data map[string]string, key string) (grants []Grant, err error) {
	text := data[key]
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &grants); err != nil {
		return nil, fmt.Errorf("key %s is not what Breakwater wrote: %w; delete the key", key, err)
	}
	return grants, nil
}
