package webhook

import "reflect"

// PeerProtocol is the name of the exchange between replicas.
var PeerProtocol = peerProtocol

// PeerProtocolName exposes peerProtocolName to tests.
func PeerProtocolName(version int, types ...reflect.Type) string {
	return peerProtocolName(version, types...)
}

// RendezvousOwner exposes rendezvousOwner to tests.
func RendezvousOwner(key string, replicas []string) string { return rendezvousOwner(key, replicas) }
