package reserve

import (
	"crypto/sha256"
	"encoding/binary"
)

// RendezvousOwner chooses one of the replicas for a key by rendezvous hashing, with the same result on every replica. When a
// replica is added or removed, only the keys that it owns change their owner. replicas must not be empty.
func RendezvousOwner(key string, replicas []string) string {
	owner, highest := "", uint64(0)
	for _, replica := range replicas {
		sum := sha256.Sum256([]byte(replica + "\x00" + key))
		if score := binary.BigEndian.Uint64(sum[:]); owner == "" || score > highest || score == highest && replica < owner {
			owner, highest = replica, score
		}
	}
	return owner
}
