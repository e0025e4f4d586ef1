package desired

import (
	"crypto/sha256"
	"encoding/hex"
)

const (
	deploymentPrefix = "deployment-"
	maxNameLength    = 253
	hashLength       = 20
)

// ProtectorName is the name of the protector of a Deployment by that name. A name that does not fit ends in a
// hash of itself. Those are exactly 253 characters long and all others are shorter, so that no Deployment can
// be named to take the place of another. Nothing stands between the two parts: a '-' after a '.', or a '.'
// after a '-', would not be a name to the apiserver.
func ProtectorName(deployment string) string {
	name := deploymentPrefix + deployment
	if len(name) < maxNameLength {
		return name
	}
	sum := sha256.Sum256([]byte(deployment))
	return name[:maxNameLength-hashLength] + hex.EncodeToString(sum[:])[:hashLength]
}
