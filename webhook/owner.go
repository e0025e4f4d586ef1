package webhook

import (
	"crypto/sha256"
	"encoding/binary"
)

// ownerOf chooses one of the replicas for a key, the same wherever it is asked, by rendezvous hashing: when a replica comes
// or goes, only the keys that it owns change hands. There must be one replica at least.
func ownerOf(key string, replicas []string) string {
	owner, highest := "", uint64(0)
	for _, replica := range replicas {
		sum := sha256.Sum256([]byte(replica + "\x00" + key))
		if score := binary.BigEndian.Uint64(sum[:]); owner == "" || score > highest || score == highest && replica < owner {
			owner, highest = replica, score
		}
	}
	return owner
}
